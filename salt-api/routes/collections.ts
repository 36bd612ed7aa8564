/** `/minions`, `/jobs`, `/keys` and `/stats` [CONTRACT 3.1 to 3.5]. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { execute } from '../clients/execute.ts';
import { runLocal } from '../clients/local.ts';
import {
  type ApiContext,
  answer,
  bodyOf,
  endOf,
  requireSession,
  type SessionCaller,
} from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { formatFor } from '../formats.ts';
import { lowstatesOf } from '../lowstate.ts';
import {
  jobsOperation,
  keysOperation,
  minionsOperation,
  publishOperation,
  statsOperation,
} from '../operations.ts';
import { newKeys } from './new-keys.ts';
import { addResource } from './resource.ts';

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
      return answer(context, request, reply.header('cache-control', 'private'), value);
    };
  const minions = withSession(async ({ user }, request, reply) => {
    const tgt = idOf(request, 'mid') ?? '*';
    return {
      return: [
        await runLocal(
          { user, bodies: context.bodies },
          { tgt, fun: 'grains.items' },
          endOf(context, reply),
        ),
      ],
    };
  });
  const jobs = withSession(async ({ user }, request) => {
    const jid = idOf(request, 'jid');
    if (jid === undefined)
      return { return: [(await user.runners.run({ fun: 'jobs.list_jobs' })).return] };
    const { return: info } = await user.runners.run({ fun: 'jobs.list_job', kwarg: { jid } });
    return { info: [info], return: [returnsOf(info)] };
  });
  const keys = withSession(async ({ user }, request) => {
    const match = idOf(request, 'mid');
    const call =
      match === undefined ? { fun: 'key.list_all' } : { fun: 'key.finger', kwarg: { match } };
    return { return: (await user.wheel.run(call)).return };
  });
  const publish = withSession(async (caller, request, reply) => {
    const lows = lowstatesOf((await bodyOf(context, request, true)).value);
    const end = endOf(context, reply);
    const results: WireValue[] = [];
    for (const low of lows) {
      results.push(...(await execute(context, caller, { ...low, client: 'local_async' }, end)));
    }
    const links = results.flatMap((it) =>
      isWireMap(it) && it.jid ? [{ href: `/jobs/${it.jid}` }] : [],
    );
    reply.code(202);
    return { return: results, _links: { jobs: links } };
  });
  if (context.options.enableSessions) {
    const GET = { about: minionsOperation, handle: minions };
    addResource(app, '/minions', { GET, POST: { about: publishOperation, handle: publish } });
    addResource(app, '/minions/:mid', { GET });
    for (const url of ['/jobs', '/jobs/:jid']) {
      addResource(app, url, { GET: { about: jobsOperation, handle: jobs } });
    }
  }
  const GET = { about: keysOperation, handle: keys };
  addResource(app, '/keys', { GET, POST: newKeys(context) });
  addResource(app, '/keys/:mid', { GET });
  const stats = async (): Promise<WireMap> => describe(await context.master.status());
  const handle: RouteHandlerMethod = context.options.statsDisableAuth
    ? async (request, reply) => answer(context, request, reply, await stats())
    : withSession(stats);
  addResource(app, '/stats', { GET: { about: statsOperation, handle } });
}

/** In the path, or in the query. */
function idOf({ params, query }: FastifyRequest, name: 'mid' | 'jid'): string | undefined {
  for (const place of [params, query]) {
    const value = Object.entries(place ?? {}).find(([key]) => key === name)?.[1];
    if (typeof value === 'string') return value;
    if (value !== undefined) throw new SaltApiError('ERR_HTTP_FIELDS', `${name} is given twice`);
  }
  return undefined;
}

/** What each minion returned, from all that is known of a job. */
function returnsOf(info: WireValue): WireMap {
  const returns: WireMap = Object.create(null);
  const results = isWireMap(info) && isWireMap(info.Result) ? info.Result : {};
  for (const [minion, result] of Object.entries(results)) {
    returns[minion] = isWireMap(result) ? (result.return ?? null) : null;
  }
  return returns;
}

/** Maps of maps, which is what SaltGUI shows; nothing of minions or jobs is in them. */
function describe(status: Awaited<ReturnType<ApiContext['master']['status']>>): WireMap {
  const { startedAt, subscribers, keys, counters } = status;
  return {
    Master: { 'Start Time': startedAt / 1000, Subscribers: subscribers, 'Worker Threads': {} },
    Keys: { ...keys, 'Worker Threads': {} },
    Counters: { ...counters, 'Worker Threads': {} },
  };
}
