// Lists and badges: a pointer arrives, the parts that care ask for themselves (hx-trigger="... from:body").
import { tell } from "./news.js";
import { Socket } from "./socket.js";

export const QUEUE_MS = 300; // between two looks at the queue

export function watchQueue(address) {
  const socket = new Socket(address, {
    onFrame(frame) {
      if (frame.t === "queue") tell("queue-changed", QUEUE_MS);
      if (frame.t === "runs") tell("runs-changed");
    },
  });
  return socket;
}
