/**
 * Commands of ZMTP 3 [RFC 23 "Commands", RFC 37 for PING, PONG, SUBSCRIBE and CANCEL].
 *
 * command  = name-length:1 name data
 * READY    data = *property        property = name-length:1 name value-length:4 value
 * PING     data = ttl:2 context    PONG data = context
 */

import { Buffer } from 'node:buffer';
import { encodeFrame, FLAG_COMMAND } from './zmtp-frames.ts';

const text = new TextEncoder();

/** A command, split into its name and data. The data is a view of the frame. */
export interface ZmtpCommand {
  readonly name: string;
  readonly data: Uint8Array;
}

/**
 * Splits the body of a command frame. Returns `undefined` if the name is empty or longer than the
 * frame.
 */
export function parseCommand(body: Uint8Array): ZmtpCommand | undefined {
  const nameLength = body[0] ?? 0;
  if (nameLength === 0 || body.length < 1 + nameLength) return undefined;
  return { name: latin1(body.subarray(1, 1 + nameLength)), data: body.subarray(1 + nameLength) };
}

/**
 * Returns the properties of a READY command, with names in lower case (RFC 23: names are not
 * case-sensitive). Returns `undefined` if a property overruns the frame, has no name or appears
 * twice.
 */
export function parseProperties(data: Uint8Array): Map<string, Uint8Array> | undefined {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const properties = new Map<string, Uint8Array>();
  let offset = 0;
  while (offset < data.length) {
    const nameEnd = offset + 1 + view.getUint8(offset);
    if (nameEnd === offset + 1 || nameEnd + 4 > data.length) return undefined;
    const valueEnd = nameEnd + 4 + view.getUint32(nameEnd);
    const name = latin1(data.subarray(offset + 1, nameEnd)).toLowerCase();
    if (valueEnd > data.length || properties.has(name)) return undefined;
    properties.set(name, data.subarray(nameEnd + 4, valueEnd));
    offset = valueEnd;
  }
  return properties;
}

/**
 * Returns a READY command that contains only a Socket-Type. This is sufficient for libzmq peers of
 * ROUTER and PUB.
 */
export function encodeReady(socketType: string): Uint8Array {
  const name = text.encode('Socket-Type');
  const value = text.encode(socketType);
  const data = new Uint8Array(1 + name.length + 4 + value.length);
  data[0] = name.length;
  data.set(name, 1);
  new DataView(data.buffer).setUint32(1 + name.length, value.length);
  data.set(value, 1 + name.length + 4);
  return encodeCommand('READY', data);
}

/** Returns a PING without a time to live and without a context [RFC 37]. */
export function encodePing(): Uint8Array {
  return encodeCommand('PING', new Uint8Array(2));
}

/** Returns a PONG that repeats the context of a PING [RFC 37]. */
export function encodePong(context: Uint8Array): Uint8Array {
  return encodeCommand('PONG', context);
}

function encodeCommand(name: string, data: Uint8Array): Uint8Array {
  const encodedName = text.encode(name);
  const body = new Uint8Array(1 + encodedName.length + data.length);
  body[0] = encodedName.length;
  body.set(encodedName, 1);
  body.set(data, 1 + encodedName.length);
  return encodeFrame(body, FLAG_COMMAND);
}

/** Converts bytes to a text with one character for each byte, so that no byte is lost. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}
