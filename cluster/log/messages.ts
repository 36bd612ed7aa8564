import { StoreError } from '#store';
import { sealOverheadBytes } from './cipher.ts';
import { LatestMessages, type MemberLink } from './latest-heard.ts';

/**
 * Function that is called for each message.
 * @param from - name of the member that sent the message
 */
export type MessageListener = (body: Buffer, from: string) => void;

export interface MessagesOptions extends MemberLink {
  /** Aborted when the store closes. */
  readonly ending: AbortSignal;
}

/**
 * Time during which messages are collected before they are encrypted and sent together, in
 * milliseconds.
 */
const gatherMs = 5;
const lengthBytes = 4;

/**
 * Messages that members send to each other outside the log. They are encrypted. A message is
 * delivered at most once and may be lost. Each message states the position up to which its sender
 * has applied the log. A member rejects a message whose position is before the start of the
 * member's own session, because it may have received this message already in its previous session.
 */
export class Messages {
  readonly #options: MessagesOptions;
  readonly #latest: LatestMessages;
  readonly #listeners = new Set<MessageListener>();
  /** Maximum size of the bodies that are sent together, in bytes. */
  readonly #room: number;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: MessagesOptions) {
    this.#options = options;
    this.#latest = new LatestMessages(options.view);
    this.#room = options.log.maxEntryBytes - this.#head().length - sealOverheadBytes;
    options.ending.addEventListener('abort', () => this.#end(), { once: true });
    options.log.onAnnouncement((bytes) => this.#hear(bytes), options.ending);
  }

  /**
   * Sends a message. The first message after a pause is sent at once. The following messages are
   * collected and sent together.
   * @throws StoreError ERR_STORE_TOO_LARGE
   */
  send(body: Uint8Array): void {
    if (this.#options.ending.aborted) return;
    const size = lengthBytes + body.length;
    if (size > this.#room) {
      throw new StoreError(
        'ERR_STORE_TOO_LARGE',
        `a message to other members has ${size} bytes; the maximum is ${this.#room}`,
      );
    }
    if (this.#gatheredBytes + size > this.#room) this.#flush();
    const length = Buffer.alloc(lengthBytes);
    length.writeUInt32BE(body.length);
    this.#gathered.push(length, Buffer.from(body));
    this.#gatheredBytes += size;
    if (this.#timer !== undefined) return;
    this.#flushAndPause();
  }

  #flushAndPause(): void {
    this.#flush();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#gathered.length > 0) this.#flushAndPause();
    }, gatherMs).unref();
  }

  #end(): void {
    clearTimeout(this.#timer);
    if (this.#gathered.length > 0) this.#flush();
  }

  #flush(): void {
    const { log, cipher } = this.#options;
    const bodies = this.#gathered.splice(0);
    this.#gatheredBytes = 0;
    log.announce(cipher.seal(Buffer.concat([this.#head(), ...bodies])).bytes);
  }

  /**
   * Returns the first line of a message: the name, the session and the position of this member. The
   * length of the line does not depend on the position.
   */
  #head(): Buffer {
    const { member, session, view } = this.#options;
    const position = String(view.state.position).padStart(16, '0');
    return Buffer.from(`${JSON.stringify([member, session, position])}\n`);
  }

  onMessage(listener: MessageListener): void {
    this.#listeners.add(listener);
  }

  #hear(bytes: Uint8Array): void {
    if (this.#listeners.size === 0) return;
    const { cipher, view, member: own } = this.#options;
    const message = cipher.open(bytes);
    if (message === undefined) return;
    const end = message.body.indexOf('\n');
    const head: string[] = JSON.parse(message.body.subarray(0, end).toString());
    const [member, session, position] = head;
    if (member === undefined || session === undefined || member === own) return;
    // This member does not know which messages it received before it was started.
    const openedAt = view.state.members[own]?.openedAt ?? Infinity;
    if (!(Number(position) >= openedAt)) return;
    if (!this.#latest.isNew(member, session, message)) return;
    for (const body of bodiesOf(message.body.subarray(end + 1))) {
      for (const listener of this.#listeners) listener(body, member);
    }
  }
}

function* bodiesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; ) {
    const end = at + lengthBytes + bytes.readUInt32BE(at);
    yield bytes.subarray(at + lengthBytes, end);
    at = end;
  }
}
