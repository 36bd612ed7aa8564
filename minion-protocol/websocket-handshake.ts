/** The server's side of the WebSocket opening handshake, without I/O [RFC 6455 §4.2]. */

import { createHash } from 'node:crypto';

/** Answer to a request for a WebSocket connection. */
export interface UpgradeAnswer {
  readonly isAccepted: boolean;
  /** Bytes to send. If the request was not accepted, the connection ends after them. */
  readonly response: Uint8Array;
}

/** GUID that is appended to the client's key [RFC 6455 §1.3]. */
const keySuffix = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const keyForm = /^[A-Za-z0-9+/]{22}==$/;
const requestLine = /^GET \S+ HTTP\/1\.1$/;

/**
 * Returns the answer to an HTTP request that asks for a WebSocket connection.
 * @param head - head of the request, without the empty line at its end. Any path is accepted
 */
export function answerUpgrade(head: string): UpgradeAnswer {
  const [request = '', ...lines] = head.split('\r\n');
  const headers = readHeaders(lines);
  if (!requestLine.test(request) || headers === undefined) return refuse('400 Bad Request');
  if (!hasToken(headers, 'upgrade', 'websocket') || !hasToken(headers, 'connection', 'upgrade')) {
    return refuse('426 Upgrade Required', 'Upgrade: websocket\r\nConnection: Upgrade\r\n');
  }
  if (headers.get('sec-websocket-version') !== '13') {
    return refuse('426 Upgrade Required', 'Sec-WebSocket-Version: 13\r\n');
  }
  const key = headers.get('sec-websocket-key') ?? '';
  if (!keyForm.test(key)) return refuse('400 Bad Request');
  const response = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${acceptKey(key)}\r\n\r\n`;
  return { isAccepted: true, response: Buffer.from(response, 'latin1') };
}

/**
 * Returns the headers by lower-case name, or `undefined` if a line is malformed. Values of a name that
 * occurs twice are joined by a comma.
 */
function readHeaders(lines: readonly string[]): Map<string, string> | undefined {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name, rest] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)$/.exec(line) ?? [];
    if (name === undefined || rest === undefined) return undefined;
    // A pattern that also removes the blanks would take quadratic time for a value with many
    // blanks between its first and its last character.
    const value = rest.trim();
    const known = headers.get(name.toLowerCase());
    headers.set(name.toLowerCase(), known === undefined ? value : `${known}, ${value}`);
  }
  return headers;
}

function hasToken(headers: ReadonlyMap<string, string>, name: string, token: string): boolean {
  const value = headers.get(name) ?? '';
  return value.split(',').some((item) => item.trim().toLowerCase() === token);
}

function acceptKey(key: string): string {
  return createHash('sha1').update(`${key}${keySuffix}`, 'latin1').digest('base64');
}

function refuse(status: string, headers = ''): UpgradeAnswer {
  const text = `HTTP/1.1 ${status}\r\n${headers}Content-Length: 0\r\n\r\n`;
  return { isAccepted: false, response: Buffer.from(text, 'latin1') };
}
