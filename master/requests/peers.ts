/**
 * What lets a minion reach beyond itself: jobs on others, runners [WIRE 9.10]. Refusals have the
 * form that Salt gives them, an empty map [WIRE 9.2].
 */
import type { WireMap } from '../../minion-protocol/index.ts';
import type { RequestCounters } from '../limits/counters.ts';
import { InFlight } from '../limits/in-flight.ts';
import type { PeerPublisher } from '../peers/peer-publisher.ts';
import type { PeerRunner } from '../peers/peer-runner.ts';
import { requestMark } from './repeats.ts';
import { type Handler, send, type VerifiedRequest } from './request.ts';

/** What the handlers need. */
export interface PeerHandlerOptions {
  readonly publisher: PeerPublisher;
  readonly runner: PeerRunner;
  readonly counters: RequestCounters;
}

/** The handlers by their `cmd`. */
export interface PeerHandlers {
  readonly minion_pub: Handler;
  readonly minion_publish: Handler;
  readonly minion_runner: Handler;
  readonly pub_ret: Handler;
  readonly _syndic_return: Handler;
}

/** Requests of one minion that may wait for others at the same time. */
const maxWaiting = 16;

export function peerHandlers({ publisher, runner, counters }: PeerHandlerOptions): PeerHandlers {
  const waiting = new InFlight(maxWaiting);
  const handler =
    (work: (minionId: string, request: VerifiedRequest) => Promise<WireMap>): Handler =>
    async (request) =>
      send(request.minionId === undefined ? {} : await work(request.minionId, request));
  return {
    minion_pub: handler((minionId, request) =>
      publisher.publish(minionId, request.load, requestMark(request)),
    ),
    minion_publish: handler(async (minionId, request) => {
      const work = (): Promise<WireMap> =>
        publisher.publishAndWait(minionId, request.load, requestMark(request));
      return (await waiting.run(minionId, work)) ?? busy(counters);
    }),
    minion_runner: async (request) => {
      const { minionId, load } = request;
      if (minionId === undefined) return send({});
      const mark = requestMark(request);
      const value = await waiting.run(minionId, () => runner.run(minionId, load, mark));
      return send(value === undefined ? busy(counters) : value);
    },
    pub_ret: handler((minionId, { load }) => publisher.returns(minionId, load.jid)),
    // Of masters below this one, which are not served.
    _syndic_return: async () => send(false),
  };
}

function busy(counters: RequestCounters): WireMap {
  counters.count('peer-busy');
  return {};
}
