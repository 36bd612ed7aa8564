/**
 * The master's interface, limited to the rights of a user. The policy decides about each call
 * before the call has any effect.
 */

import { LimitExceeded, linkSignals } from '#runtime';
import {
  type EventsApi,
  type InProcessFunctionsApi,
  isServingMember,
  type JobUpdate,
  type MasterDescription,
  type MasterEvent,
  type RequireWheel,
  requesterName,
  type UserApi,
} from '../api/index.ts';
import { flat, MissedEvents } from '../events/index.ts';
import { userLimits } from './limits.ts';
import { suffixOf } from './own-jobs.ts';
import { readableBy } from './readable-events.ts';
import { type FollowRequest, requireValid, UserGate } from './user-gate.ts';
import { hasFullRights, type UserApiDeps, type UserSession } from './user-session.ts';

/**
 * Creates the master's interface for one user. The policy is evaluated at each call.
 * @param open - opens a session of the user. Each call of the interface opens a new one
 * @throws AuthenticationError
 */
export function createUserApi(parts: UserApiDeps, open: () => Promise<UserSession>): UserApi {
  const gate = new UserGate(parts);
  /**
   * Checks a request with the policy, and starts the stream of a job that it requests. Yields the
   * items until the stream or the user's token ends.
   * @throws AuthenticationError ERR_EAUTH_TOKEN if the token ended, LimitExceeded if the user has
   * too many open streams
   */
  async function* judged<R, T>(
    run: (request: R, signal?: AbortSignal) => AsyncIterable<T>,
    judge: (session: UserSession, request: R) => R | Promise<R>,
    request: R,
    signal?: AbortSignal,
  ): AsyncGenerator<T, void, void> {
    const session = await open();
    const owner = requesterName(session.subject);
    if (!parts.jobStreams.tryTake(owner)) {
      session.stop();
      throw new LimitExceeded(userLimits.jobStreams);
    }
    const end = linkSignals(session.ended, signal);
    try {
      const permitted = await judge(session, request);
      yield* run(permitted, end.signal);
      requireValid(session);
    } finally {
      end.unlink();
      session.stop();
      parts.jobStreams.release(owner);
    }
  }
  async function subscribed(
    { match, ...request }: NonNullable<Parameters<EventsApi['subscribe']>[0]> = {},
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<readonly MasterEvent[], void, void>> {
    const session = await open();
    const { signal: end, unlink } = linkSignals(session.ended, signal);
    const stop = (): void => {
      unlink();
      session.stop();
    };
    const isReadable = readableBy(session, parts.ownJobs);
    try {
      const isMeant =
        match === undefined ? undefined : parts.streamPatterns.testOf(match, session.subject);
      // The subscription begins immediately, so that events before the first read are not missed.
      const events = parts.events.batches(request, end);
      // The policy decides before the patterns do, because it is the same for all streams.
      const isForReader = (event: MasterEvent): boolean =>
        !end.aborted &&
        isReadable(event) &&
        (isMeant === undefined || event instanceof MissedEvents || isMeant(event.tag));
      return only(events, isForReader, stop);
    } catch (error) {
      stop();
      throw error;
    }
  }
  async function once<T>(work: (session: UserSession) => Promise<T>): Promise<T> {
    const session = await open();
    try {
      return await work(session);
    } finally {
      session.stop();
    }
  }
  const follow = ({ jid, by }: FollowRequest, signal?: AbortSignal): AsyncIterable<JobUpdate> =>
    parts.jobs.follow(jid, signal, by);
  const run: UserApi['jobs']['run'] = (request, signal) =>
    judged(
      parts.jobs.run,
      (session, it) =>
        it.subset === undefined ? gate.judgeOneJob(session, it) : gate.judgeBatch(session, it),
      request,
      signal,
    );
  const requesterJobs = { run };
  const requireWheel: RequireWheel = (call) =>
    once(async (session) => void gate.requireCall(session, 'wheel', call));
  const rights = { requesterJobs, requireWheel };
  const functions = (kind: 'runner' | 'wheel', api: InProcessFunctionsApi): UserApi['runners'] => ({
    run: (call) =>
      once((session) => api.run({ ...gate.judgeCall(session, kind, call), ...rights })),
    start: (call) =>
      once((session) => api.start({ ...gate.judgeCall(session, kind, call), ...rights })),
  });
  return {
    jobs: {
      publish: (request) =>
        once(async (session) => parts.jobs.publish(await gate.judgeOneJob(session, request))),
      run,
      batch: (request, signal) =>
        judged(parts.jobs.batch, (session, it) => gate.judgeBatch(session, it), request, signal),
      follow: (jid, signal) =>
        judged(follow, (session, it) => gate.judgeFollowing(session, it), { jid }, signal),
    },
    runners: functions('runner', parts.runners),
    wheel: functions('wheel', parts.wheel),
    permits: (action, name) => once(async (session) => gate.permits(session, action, name)),
    events: {
      subscribe: async (request, signal) => flat(await subscribed(request, signal)),
      subscribeBatches: (request, signal) => subscribed(request, signal),
      fire: (tag, data) =>
        once((session) => {
          const call = { fun: 'event.send', arg: [tag] };
          const { by } = gate.judgeCall(session, 'runner', call);
          return parts.events.fire(tag, data, by);
        }),
    },
    keys: {
      create: ({ id, bits, force }) =>
        once((session) => {
          const given = { ...(bits === undefined ? {} : { bits }), ...(force ? { force } : {}) };
          const call = { fun: 'key.gen_accept', kwarg: { id_: id, ...given } };
          const { by } = gate.judgeCall(session, 'wheel', call);
          return parts.keys.create({ id, ...given }, by);
        }),
    },
    requireFullRights: (what) => once(async (session) => gate.judgeEverything(session, what)),
    describeMaster: () =>
      once(async (session) => {
        const isFull = hasFullRights(session);
        const own = isFull ? {} : { ownJobs: suffixOf(session.subject) };
        return { ...describeCluster(parts.cluster), hasFullRights: isFull, ...own };
      }),
  };
}

function describeCluster(
  cluster: UserApiDeps['cluster'],
): Pick<MasterDescription, 'jobs' | 'isReady'> {
  if (cluster === undefined) return { isReady: true };
  const status = cluster.status();
  return { jobs: status.log, isReady: isServingMember(status) };
}

async function* only<T>(
  batches: AsyncIterable<readonly T[]>,
  isMeant: (item: T) => boolean,
  stop: () => void,
): AsyncGenerator<readonly T[], void, void> {
  try {
    for await (const batch of batches) {
      // In most cases the user may read all items. Readers then share the same list.
      const meant = batch.every(isMeant) ? batch : batch.filter(isMeant);
      if (meant.length > 0) yield meant;
    }
  } finally {
    stop();
  }
}
