/**
 * Encodes the frames of an open connection as MessagePack. A frame is a request, a reply or a
 * failure.
 */

import { packLocal, unpackLocal, type WireValue } from '#minion-protocol';
import { EdgeError, type EdgeErrorCode, edgeErrors } from '../errors.ts';

/** Maximum size of a frame, in bytes. */
export const maxFrameBytes = 65_536;

/**
 * Maximum size of a request's parameters, in bytes. A request with such parameters fits into a
 * frame of {@link maxFrameBytes}.
 */
export const maxParamsBytes: number = maxFrameBytes - 256;

/** Frame of an open connection. */
export type Frame =
  | {
      readonly kind: 'request';
      readonly id: number;
      readonly name: string;
      readonly params: WireValue;
    }
  | { readonly kind: 'reply'; readonly id: number; readonly value: WireValue }
  | {
      readonly kind: 'failure';
      readonly id: number;
      readonly code: EdgeErrorCode;
      readonly message: string;
    };

/**
 * Limits for decoding a frame. The messages have few list elements and map entries: the most has the
 * acknowledgement of a batch with 64 refused entries. More elements would take milliseconds.
 */
const limits = { maxBytes: maxFrameBytes, maxDepth: 32, maxElements: 1024 };
const maxMessageLength = 500;
const maxId = 2 ** 32;

/**
 * Encodes a frame.
 * @throws EdgeError ERR_SITE_MESSAGE if the frame is too large or contains a value that MessagePack
 * cannot encode
 */
export function encodeFrame(frame: Frame): Buffer {
  const bytes = pack(frame);
  if (bytes.length <= maxFrameBytes) return bytes;
  throw malformed(`it has ${bytes.length} bytes; the maximum is ${maxFrameBytes}`);
}

function pack(frame: Frame): Buffer {
  try {
    if (frame.kind === 'request') return packLocal([0, frame.id, frame.name, frame.params]);
    if (frame.kind === 'reply') return packLocal([1, frame.id, frame.value]);
    return packLocal([2, frame.id, frame.code, frame.message.slice(0, maxMessageLength)]);
  } catch (cause) {
    throw malformed('it has a value that cannot be sent', cause);
  }
}

/**
 * Decodes a frame.
 * @throws EdgeError ERR_SITE_MESSAGE
 */
export function decodeFrame(bytes: Uint8Array): Frame {
  let fields: WireValue;
  try {
    fields = unpackLocal(bytes, limits);
  } catch (cause) {
    throw malformed('it is not valid MessagePack within the limits', cause);
  }
  if (!Array.isArray(fields)) throw malformed('it is not a list');
  const [kind, id, third, fourth] = fields;
  if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > maxId) {
    throw malformed('its id is malformed');
  }
  if (kind === 0 && fields.length === 4 && typeof third === 'string' && fourth !== undefined) {
    return { kind: 'request', id, name: third, params: fourth };
  }
  if (kind === 1 && fields.length === 3 && third !== undefined) {
    return { kind: 'reply', id, value: third };
  }
  if (kind === 2 && fields.length === 4 && typeof fourth === 'string') {
    const message = fourth.slice(0, maxMessageLength);
    return { kind: 'failure', id, code: isCode(third) ? third : 'ERR_SITE_MESSAGE', message };
  }
  throw malformed('its fields are malformed');
}

function isCode(value: WireValue | undefined): value is EdgeErrorCode {
  return typeof value === 'string' && Object.hasOwn(edgeErrors, value);
}

function malformed(reason: string, cause?: unknown): EdgeError {
  const text = `a message on the link was rejected: ${reason}`;
  return new EdgeError('ERR_SITE_MESSAGE', text, cause === undefined ? {} : { cause });
}
