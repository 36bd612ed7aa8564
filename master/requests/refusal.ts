import type { WireValue } from '#minion-protocol';

/** Salt's reply to a request that the master cannot read. The minion then signs in again. */
export const badLoad = 'bad load';

/** Error that rejects a request. It contains the reply. */
export class Refusal extends Error {
  readonly reason: string;
  readonly reply: WireValue;

  constructor(reason: string, reply: WireValue = badLoad) {
    super(reason);
    this.reason = reason;
    this.reply = reply;
  }
}
