import {
  type ClearEnvelope,
  encodeClearReply,
  type Peer,
  type WireValue,
} from '../../minion-protocol/index.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { Meter } from '../metrics/meter.ts';
import type { SignIn } from './auth.ts';

/**
 * Requests in the clear: `_auth` and `ping`, nothing else [THREATS C-23]. Whatever Salt's own
 * command line would ask here has another door.
 */
export class ClearRequests {
  readonly #signIn: SignIn;
  readonly #counters: RequestCounters;
  readonly #meter: Meter;

  constructor(signIn: SignIn, counters: RequestCounters, meter: Meter) {
    this.#signIn = signIn;
    this.#counters = counters;
    this.#meter = meter;
  }

  async answer(envelope: ClearEnvelope, peer: Peer): Promise<Uint8Array> {
    const { cmd } = envelope.load;
    this.#measure(cmd);
    if (cmd === '_auth') return this.#signIn.answer(envelope, peer);
    // protection: clear-commands
    if (cmd === 'ping') return encodeClearReply(envelope.load);
    this.#counters.count('unknown-clear-cmd');
    return encodeClearReply({});
  }

  #measure(cmd: WireValue | undefined): void {
    const isServed = cmd === '_auth' || cmd === 'ping';
    this.#meter.countRequest(isServed ? cmd : 'unknown', isServed ? 'answered' : 'refused');
  }
}
