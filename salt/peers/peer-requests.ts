/**
 * Handles jobs and runners requested by minions [WIRE 9.10]. A refusal is an empty map, as in Salt
 * [WIRE 9.2].
 */

import {
  anyLoad,
  defineRequestType,
  type MasterContext,
  type OpenExtension,
  type ProvenRequest,
  type Reply,
  requestDigest,
  send,
} from '#master';
import type { WireValue } from '#minion-protocol';
import { FairSlots, LimitExceeded } from '#runtime';
import { manyElements, saltLimits } from '../limits.ts';
import { InFlight } from './in-flight.ts';
import type { PeerPublisher } from './peer-publisher.ts';
import type { PeerRunner } from './peer-runner.ts';

export interface PeerRequestOptions {
  readonly publisher: PeerPublisher;
  readonly runner: PeerRunner;
  readonly counters: MasterContext['counters'];
}

/**
 * Maximum number of pending requests of one minion. If a minion repeats a pending request, both
 * requests get the same reply. If it repeats a request that was already answered, the reply is
 * empty. Earlier replies are not stored, because they may be large.
 */
const maxWaiting = 16;

export function peerRequests({
  publisher,
  runner,
  counters,
}: PeerRequestOptions): NonNullable<OpenExtension['requests']> {
  const waiting = new InFlight<WireValue>(maxWaiting);
  const readings = new FairSlots(saltLimits.peerReturns);
  const wait = async (
    request: ProvenRequest,
    work: (request: ProvenRequest, mark: string | undefined) => Promise<WireValue>,
  ): Promise<Reply> => {
    const mark = requestDigest(request);
    const value = await waiting.run(request.minionId, mark, () => work(request, mark));
    if (value !== undefined) return send(value);
    counters.count('peer-busy');
    return send({});
  };
  return {
    minion_pub: defineRequestType({
      kind: 'once',
      needsToken: true,
      rate: 'requests',
      maxElements: manyElements,
      load: anyLoad,
      handle: async (request) => send(await publisher.publish(request, requestDigest(request))),
    }),
    minion_publish: defineRequestType({
      kind: 'write',
      needsToken: true,
      rate: 'requests',
      maxElements: manyElements,
      load: anyLoad,
      handle: (request) => wait(request, (...asked) => publisher.publishAndWait(...asked)),
    }),
    minion_runner: defineRequestType({
      kind: 'write',
      needsToken: true,
      rate: 'requests',
      load: anyLoad,
      handle: (request) => wait(request, (...asked) => runner.run(...asked)),
    }),
    pub_ret: defineRequestType({
      kind: 'read',
      needsToken: true,
      rate: 'requests',
      load: anyLoad,
      handle: async ({ minionId }, load) => {
        try {
          return send(await readings.run(minionId, () => publisher.returns(minionId, load.jid)));
        } catch (error) {
          if (!(error instanceof LimitExceeded)) throw error;
          counters.count('peer-busy');
          return send({});
        }
      },
    }),
  };
}
