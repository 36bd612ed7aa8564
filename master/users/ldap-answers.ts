/**
 * Limits the answers of an LDAP server. The client library parses all messages of a chunk in one
 * recursion, and stores all entries of a search. Without limits, a server could therefore stop the
 * master with many small messages, or use up its memory.
 */

import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { userLimits } from './limits.ts';

const maxBytes = userLimits.ldapBytes.perOwner ?? Infinity;
const maxMessages = userLimits.ldapMessages.perOwner ?? Infinity;
const maxElements = userLimits.ldapElements.perOwner ?? Infinity;

const sequence = 0x30;
/** Bit in a tag of BER. It means that the content of the element consists of elements. */
const constructed = 0x20;
/** Maximum number of bytes in which the length of an element may be written. */
const maxLengthBytes = 4;

/** Like `connect` of `node:net`, for a connection to an LDAP server whose answers are limited. */
export const connectLdap: typeof connectTcp = new Proxy(connectTcp, {
  apply: (connect, self, words) => limitAnswers(Reflect.apply(connect, self, words)),
});

/** Like `connect` of `node:tls`, for a connection to an LDAP server whose answers are limited. */
export const connectLdaps: typeof connectTls = new Proxy(connectTls, {
  apply: (connect, self, words) => limitAnswers(Reflect.apply(connect, self, words)),
});

/**
 * Changes a socket so that it emits each message of LDAP in a chunk of its own. Destroys the socket
 * if the server exceeds a limit, or sends anything but messages of LDAP.
 */
function limitAnswers(socket: Socket): Socket {
  const push = socket.push.bind(socket);
  const messages = new LdapMessages();
  socket.push = (chunk: unknown, encoding) => {
    if (!Buffer.isBuffer(chunk)) return push(chunk, encoding);
    try {
      let isEmpty = true;
      for (const message of messages.read(chunk)) isEmpty = push(message);
      return isEmpty;
    } catch (error) {
      socket.destroy(error instanceof Error ? error : new Error(String(error)));
      return false;
    }
  };
  return socket;
}

/** Divides the bytes of one connection into messages, and counts them. */
export class LdapMessages {
  #parts: Buffer[] = [];
  /** Number of bytes in `#parts`. */
  #waiting = 0;
  /** Number of bytes that the current message needs before its next part can be read. */
  #needed = 2;
  #bytes = 0;
  #messages = 0;
  #elements = 0;

  /**
   * Takes received bytes.
   * @returns the messages that are complete now
   * @throws Error if a limit is exceeded, or if the bytes are not a message of LDAP
   */
  read(bytes: Buffer): Buffer[] {
    this.#bytes += bytes.length;
    if (this.#bytes > maxBytes) {
      throw new Error(`the LDAP server sent more than ${maxBytes} bytes`);
    }
    this.#parts.push(bytes);
    this.#waiting += bytes.length;
    const messages: Buffer[] = [];
    if (this.#waiting < this.#needed) return messages;
    let rest = Buffer.concat(this.#parts);
    for (;;) {
      if (rest.length > 0 && rest[0] !== sequence) {
        throw new Error('the LDAP server sent a message that does not begin with a sequence');
      }
      this.#needed = elementAt(rest, 0)?.next ?? rest.length + 1;
      if (this.#needed > rest.length) break;
      const message = rest.subarray(0, this.#needed);
      this.#count(message);
      messages.push(message);
      rest = rest.subarray(this.#needed);
    }
    this.#parts = [rest];
    this.#waiting = rest.length;
    return messages;
  }

  #count(message: Buffer): void {
    this.#messages += 1;
    if (this.#messages > maxMessages) {
      throw new Error(`the LDAP server sent more than ${maxMessages} messages`);
    }
    for (let at = 0; at < message.length; ) {
      const element = elementAt(message, at);
      if (element === undefined) throw new Error('the LDAP server sent an incomplete element');
      this.#elements += 1;
      at = ((message[at] ?? 0) & constructed) === 0 ? element.next : element.content;
    }
    if (this.#elements <= maxElements) return;
    throw new Error(`the answers of the LDAP server have more than ${maxElements} elements`);
  }
}

/**
 * Reads the head of an element of BER.
 * @returns the positions of its content and of the next element, or `undefined` if the head is
 * incomplete
 * @throws Error if the length has another form than in LDAP
 */
function elementAt(
  bytes: Buffer,
  at: number,
): { readonly content: number; readonly next: number } | undefined {
  const first = bytes[at + 1];
  if (first === undefined) return undefined;
  if (first < 0x80) return { content: at + 2, next: at + 2 + first };
  const count = first & 0x7f;
  if (count === 0 || count > maxLengthBytes) {
    throw new Error('the LDAP server sent an element whose length has an invalid form');
  }
  const content = at + 2 + count;
  if (bytes.length < content) return undefined;
  return { content, next: content + bytes.readUIntBE(at + 2, count) };
}
