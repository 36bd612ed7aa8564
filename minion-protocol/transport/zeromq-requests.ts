import { type AnswerForm, RequestQueue, type RequestService } from './request-queue.ts';
import { toEncodedMessage } from './write-queue.ts';
import type { ZeromqHandlers } from './zeromq-peer.ts';
import { encodeMessage } from './zmtp-frames.ts';

/** Maximum length of a routing id, in bytes [RFC 23]. */
const MAX_ENVELOPE_FRAME_BYTES = 255;

/**
 * Frames of a request, up to and including the empty frame. They identify the sender, and the reply
 * repeats them.
 */
type RoutingEnvelope = readonly Uint8Array[];

const ANSWER_FORM: AnswerForm<RoutingEnvelope> = {
  encode: (envelope, answer) => toEncodedMessage(encodeMessage([...envelope, answer])),
  isOrdered: true,
};

/**
 * Handles the requests of a connection. They are processed concurrently, but replies are sent in
 * the order of the requests.
 */
export function requestHandlers(
  service: RequestService,
): ZeromqHandlers<RequestQueue<RoutingEnvelope>> {
  return {
    openSession: (connection) => new RequestQueue(connection, service, ANSWER_FORM),
    onMessage: (frames, queue, connection) => {
      const request = splitRequest(frames);
      if (request === undefined) connection.guarded.refuse('bad-request');
      else queue.take(request.envelope, request.body);
    },
  };
}

/**
 * Splits a message into its routing frames, which end with an empty frame, and the body in the next
 * frame. Returns `undefined` if there is no empty frame, if not exactly one frame follows it, or if
 * a routing frame is too long.
 */
function splitRequest(
  frames: readonly Uint8Array[],
): { readonly envelope: RoutingEnvelope; readonly body: Uint8Array } | undefined {
  const empty = frames.findIndex((frame) => frame.length === 0);
  const body = frames[empty + 1];
  if (empty === -1 || body === undefined || frames.length !== empty + 2) return undefined;
  const envelope = frames.slice(0, empty + 1);
  return envelope.some((frame) => frame.length > MAX_ENVELOPE_FRAME_BYTES)
    ? undefined
    : { envelope, body };
}
