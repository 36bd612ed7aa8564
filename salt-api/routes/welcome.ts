import type { WireMap } from '../../minion-protocol/index.ts';
import type { ApiContext } from '../context.ts';

/** What there is, for whoever asks. */
export function welcome({ clients }: ApiContext): WireMap {
  return { return: 'Welcome', clients: [...clients] };
}
