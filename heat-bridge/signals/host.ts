/** What signals need of the master that they are an extension of. */
import type { Logger } from 'pino';
import type { WireMap } from '../../minion-protocol/index.ts';
import type { SignalState } from './state.ts';

export interface SignalsHost {
  readonly state: SignalState;
  /** As long as a request that was sent once can come again, milliseconds. */
  readonly keepMarksMs: number;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Ends what is under way. */
  readonly closing: AbortSignal;
  /** An event on the bus. */
  readonly fire: (tag: string, data: WireMap) => void;
}
