import type { WireMap } from '../../minion-protocol/index.ts';
import { type ApiContext, answer } from '../context.ts';
import { welcomeOperation } from '../operations.ts';
import type { Served } from './resource.ts';

/** What there is, for whoever asks. */
export function welcoming(context: ApiContext): Served {
  return {
    about: welcomeOperation,
    handle: (request, reply) => answer(context, request, reply, welcome(context)),
  };
}

function welcome({ clients }: ApiContext): WireMap {
  return { return: 'Welcome', clients: [...clients] };
}
