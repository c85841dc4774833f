// Lists and badges: a pointer arrives, the parts that care ask for themselves (hx-trigger="... from:body").
import { Socket } from "./socket.js";

export function watchQueue(address) {
  let dropped = false;
  const tell = (name) => document.body.dispatchEvent(new Event(name));
  const socket = new Socket(address, {
    onFrame(frame) {
      if (frame.t === "hello" && dropped) { tell("queue-changed"); tell("runs-changed"); }
      if (frame.t === "hello") dropped = true;
      if (frame.t === "queue") tell("queue-changed");
      if (frame.t === "runs") tell("runs-changed");
    },
  });
  return socket;
}
