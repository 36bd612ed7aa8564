/** `/minions`, `/jobs`, `/keys` and `/stats`. */

import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { AnswerBytes } from '../answer-bytes.ts';
import { LowstateAnswer, localClientDeps, requireClient } from '../clients.ts';
import {
  type ApiContext,
  bodyOf,
  requestEndSignal,
  requireSession,
  type SessionCaller,
  sendAnswer,
  userOwner,
} from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { formatFor } from '../formats.ts';
import { lowstatesOf } from '../lowstate.ts';
import { runLocal } from '../minion-clients.ts';
import { newKeysMethod } from './new-keys.ts';
import { addRoute } from './route.ts';
import { jobsSchema, keysSchema, minionsSchema, publishSchema, statsSchema } from './schemas.ts';

type Handle = (
  caller: SessionCaller,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<WireValue>;

export function addCollectionRoutes(app: FastifyInstance, context: ApiContext): void {
  const withSession =
    (handle: Handle) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      formatFor(request.headers.accept);
      const caller = await requireSession(context, request);
      const value = await handle(caller, request, reply);
      return sendAnswer(context, request, reply.header('cache-control', 'private'), value, caller);
    };
  /**
   * Counts the size of a runner or wheel result towards the limit of the caller, until the response
   * is sent.
   */
  const hold = (caller: SessionCaller, reply: FastifyReply, value: WireValue): WireValue => {
    AnswerBytes.of(context.answerBudget, reply).take(userOwner(caller), value);
    return value;
  };
  const minions = withSession(async (caller, request, reply) => {
    requireClient(context, 'local');
    const low = { tgt: idOf(request, 'mid') ?? '*', fun: 'grains.items' };
    const warnings = new Set<string>();
    const deps = localClientDeps(
      caller,
      context,
      warnings,
      AnswerBytes.of(context.answerBudget, reply),
    );
    const values = await runLocal(deps, low, requestEndSignal(context, reply));
    return { return: [values], ...(warnings.size === 0 ? {} : { warnings: [...warnings] }) };
  });
  const jobs = withSession(async (caller, request, reply) => {
    requireClient(context, 'runner');
    const jid = idOf(request, 'jid');
    const call =
      jid === undefined ? { fun: 'jobs.list_jobs' } : { fun: 'jobs.list_job', kwarg: { jid } };
    const info = hold(caller, reply, (await caller.user.runners.run(call)).return);
    if (jid === undefined) return { return: [info] };
    return { info: [info], return: [returnsOf(info)] };
  });
  const keys = withSession(async (caller, request, reply) => {
    requireClient(context, 'wheel');
    const match = idOf(request, 'mid');
    const call =
      match === undefined ? { fun: 'key.list_all' } : { fun: 'key.finger', kwarg: { match } };
    return { return: hold(caller, reply, (await caller.user.wheel.run(call)).return) };
  });
  const publish = withSession(async (caller, request, reply) => {
    const lows = lowstatesOf((await bodyOf(context, request, { isCommand: true, caller })).value);
    const end = requestEndSignal(context, reply);
    const answer = new LowstateAnswer(AnswerBytes.of(context.answerBudget, reply));
    for (const low of lows) {
      await answer.execute(context, caller, { ...low, client: 'local_async' }, end);
    }
    const links = answer.results.flatMap((it) =>
      isWireMap(it) && it.jid ? [{ href: `/jobs/${it.jid}` }] : [],
    );
    reply.code(202);
    return { ...answer.body, _links: { jobs: links } };
  });
  if (context.options.enableSessions) {
    const GET = { schema: minionsSchema, handle: minions };
    addRoute(app, '/minions', { GET, POST: { schema: publishSchema, handle: publish } });
    addRoute(app, '/minions/:mid', { GET });
    for (const url of ['/jobs', '/jobs/:jid']) {
      addRoute(app, url, { GET: { schema: jobsSchema, handle: jobs } });
    }
  }
  const GET = { schema: keysSchema, handle: keys };
  addRoute(app, '/keys', { GET, POST: newKeysMethod(context) });
  addRoute(app, '/keys/:mid', { GET });
  const stats = async (): Promise<WireMap> => describeStatus(await context.master.status());
  const handle: RouteHandlerMethod = context.options.statsDisableAuth
    ? async (request, reply) => sendAnswer(context, request, reply, await stats())
    : withSession(stats);
  addRoute(app, '/stats', { GET: { schema: statsSchema, handle } });
}

/** Returns an id from the path or from the query of a request. */
function idOf({ params, query }: FastifyRequest, name: 'mid' | 'jid'): string | undefined {
  for (const place of [params, query]) {
    const value = Object.entries(place ?? {}).find(([key]) => key === name)?.[1];
    if (typeof value === 'string') return value;
    if (value !== undefined)
      throw new SaltApiError('ERR_HTTP_FIELDS', `${name}: must not be given twice`);
  }
  return undefined;
}

/**
 * Returns the value that each minion returned, by minion id.
 * @param info - data of a job in Salt's form
 */
function returnsOf(info: WireValue): WireMap {
  const returns: WireMap = Object.create(null);
  const results = isWireMap(info) && isWireMap(info.Result) ? info.Result : {};
  for (const [minion, result] of Object.entries(results)) {
    returns[minion] = isWireMap(result) ? (result.return ?? null) : null;
  }
  return returns;
}

/**
 * Returns the status as maps of maps, which SaltGUI displays. It contains nothing about individual
 * minions or jobs.
 */
function describeStatus(status: Awaited<ReturnType<ApiContext['master']['status']>>): WireMap {
  const { startedAt, subscribers, keys, counters } = status;
  return {
    Master: { 'Start Time': startedAt / 1000, Subscribers: subscribers, 'Worker Threads': {} },
    Keys: { ...keys, 'Worker Threads': {} },
    Counters: { ...counters, 'Worker Threads': {} },
  };
}
