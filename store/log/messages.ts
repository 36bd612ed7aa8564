import { StoreError } from '../errors.ts';
import { type LogCipher, sealOverheadBytes } from './cipher.ts';
import { LatestHeard } from './latest-heard.ts';
import type { TransactionLog } from './transaction-log.ts';
import type { LogView } from './view.ts';

/** Called with the content of a message and the name of the member that sent it. */
export type MessageListener = (body: Buffer, from: string) => void;

export interface MessagesOptions {
  readonly log: TransactionLog;
  readonly view: LogView;
  readonly cipher: LogCipher;
  readonly member: string;
  /** Of this opening, as the log has it. */
  readonly session: string;
  /** Ends it. */
  readonly ending: AbortSignal;
}

/** Messages between members, beside the log: sealed, each heard once, and perhaps lost. */
export class Messages {
  readonly #options: MessagesOptions;
  readonly #latest: LatestHeard;
  readonly #listeners = new Set<MessageListener>();

  constructor(options: MessagesOptions) {
    this.#options = options;
    this.#latest = new LatestHeard(options.view);
    options.log.onAnnouncement((bytes) => this.#hear(bytes), options.ending);
  }

  /** @throws StoreError ERR_STORE_TOO_LARGE */
  send(body: Uint8Array): void {
    const { log, cipher, member, session } = this.#options;
    const head = Buffer.from(`${JSON.stringify([member, session])}\n`);
    const size = head.length + body.length + sealOverheadBytes;
    if (size > log.maxEntryBytes) {
      throw new StoreError('ERR_STORE_TOO_LARGE', `a message to other members has ${size} bytes`);
    }
    log.announce(cipher.seal(Buffer.concat([head, body])).bytes);
  }

  onMessage(listener: MessageListener): void {
    this.#listeners.add(listener);
  }

  #hear(bytes: Uint8Array): void {
    if (this.#listeners.size === 0) return;
    const { cipher, member: own } = this.#options;
    const message = cipher.open(bytes);
    if (message === undefined) return;
    const end = message.body.indexOf('\n');
    const [member, session]: string[] = JSON.parse(message.body.subarray(0, end).toString());
    if (member === undefined || session === undefined || member === own) return;
    // protection: repeated-messages
    if (!this.#latest.isNew(member, session, message)) return;
    for (const listener of this.#listeners) listener(message.body.subarray(end + 1), member);
  }
}
