/**
 * What lets a minion reach beyond itself: jobs on others, runners [WIRE 9.10]. Refusals have the
 * form that Salt gives them, an empty map [WIRE 9.2].
 */
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import type { RequestCounters } from '../limits/counters.ts';
import { InFlight } from '../limits/in-flight.ts';
import type { PeerPublisher } from '../peers/peer-publisher.ts';
import type { PeerRunner } from '../peers/peer-runner.ts';
import { type Handler, type Reply, send, type VerifiedRequest } from './request.ts';
import { requestMark } from './request-mark.ts';

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

/**
 * Requests of one minion that may wait for others at the same time. One that is repeated meanwhile
 * gets the same answer; afterwards it gets none, because answers may be large and are not kept.
 */
const maxWaiting = 16;

export function peerHandlers({ publisher, runner, counters }: PeerHandlerOptions): PeerHandlers {
  const waiting = new InFlight<WireValue>(maxWaiting);
  const wait = async (
    { minionId, load }: VerifiedRequest,
    mark: string | undefined,
    work: (minionId: string, load: WireMap, mark: string | undefined) => Promise<WireValue>,
  ): Promise<Reply> => {
    if (minionId === undefined) return send({});
    const value = await waiting.run(minionId, mark, () => work(minionId, load, mark));
    if (value !== undefined) return send(value);
    counters.count('peer-busy');
    return send({});
  };
  const handler =
    (work: (minionId: string, request: VerifiedRequest) => Promise<WireMap>): Handler =>
    async (request) =>
      send(request.minionId === undefined ? {} : await work(request.minionId, request));
  return {
    minion_pub: handler((minionId, request) =>
      publisher.publish(minionId, request.load, requestMark(request)),
    ),
    minion_publish: (request) =>
      wait(request, requestMark(request), (...asked) => publisher.publishAndWait(...asked)),
    minion_runner: (request) =>
      wait(request, requestMark(request), (...asked) => runner.run(...asked)),
    pub_ret: handler((minionId, { load }) => publisher.returns(minionId, load.jid)),
    // Of masters below this one, which are not served.
    _syndic_return: async () => send(false),
  };
}
