/** A member of a cluster with real NATS servers is killed. Other members continue its work. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { connectExtension, connectMaster } from '#client';
import { initCluster, joinCluster } from '#cluster';
import type { MasterConfig } from '#config';
import type { HandleInfo, OutboxEntry, PlanStarted, PlanUpdate } from '#heat-bridge';
import { startNatsServers } from '../../bench/nats-cluster.ts';
import { until, within } from '../helpers/deadline.ts';
import { collect } from '../helpers/fleet.ts';
import { startKillable } from '../helpers/killable-master.ts';
import { hasNatsServer } from '../helpers/nats-server.ts';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { eventually } from '../interop/eventually.ts';
import { startStandInHeat } from './deployments/stand-in-heat.ts';
import { always, recorderFor } from './signals/recorder.ts';

const clusterTest = testWhere(hasNatsServer, 'nats-server of Debian', test);

const catalog = `
site.quick: { description: x, function: site.quick, reviewed: made for this test alone }
site.held: { description: x, function: site.held, reviewed: made for this test alone }
site.deployed: { description: x, function: site.deployed, reviewed: made for this test alone, timeout: 90 }
plans:
  site.roll-out:
    description: Something quick, and something that takes until the master was killed.
    groups: { all: {} }
    steps:
      before: { command: site.quick, group: all }
      held: { command: site.held, group: all, needs: [before] }
      after: { command: site.quick, group: all, needs: [held] }
`;

function configurationOf(
  member: string,
  servers: readonly string[],
  { origins, fileRoot }: { readonly origins: readonly string[]; readonly fileRoot: string },
): string {
  return `
auto_accept: true
timeout: 5
file_roots: { base: [${fileRoot}] }
saltbridge:
  cluster: { name: crash, member: ${member}, nats: [${servers.join(', ')}] }
  bridge:
    catalog: [commands.yaml]
    handles: { endpoints: [${origins.map((it) => `"${it}"`)}], same_id_wait: 0, retry_max_delay: 1 }
    deployments: { poll_interval: 1, retry_max_delay: 1 }
  acl:
    rules:
      signals: { subject: { minion: "*" }, action: signal, resource: { tag: "heat/*" } }
      stacks: { subject: { service: deployments }, action: command, resource: { fun: site.deployed } }
`;
}

const say = (text: string): string => `
${text}:
  salt.function: [{ name: site.say }, { tgt: web1 }, { kwarg: { text: ${text} } }]
`;

/**
 * Time after which another member takes over, in milliseconds: the lifetime of the lease, and the
 * time to notice that it is free.
 */
const takeOverMs = 45_000;

clusterTest(
  'another member continues signals, plans, deployments and orchestrations of a killed member',
  async (t) => {
    t.timeout(240_000);
    const servers = await startNatsServers(temporaryDirectory(t), 3);
    t.teardown(() => Promise.all(servers.map((server) => server.kill())));
    const urls = servers.map(({ url }) => url);
    const service = await recorderFor(t, always(503));
    const heat = await startStandInHeat(t);
    const fileRoot = temporaryDirectory(t);
    writeFileSync(path.join(fileRoot, 'whole.sls'), ['before', 'held', 'after'].map(say).join(''));
    const shared = { origins: [service.origin, heat.origin], fileRoot };
    const files = { 'commands.yaml': catalog };
    const start = (member: string, prepare: (config: MasterConfig) => Promise<unknown>) =>
      startKillable(t, configurationOf(member, urls, shared), files, prepare);
    const a = await start('a', (config) => initCluster(config));
    const joining = async (config: MasterConfig): Promise<void> => {
      const { ticket } = await connectMaster({ socketPath: a.socketPath }).cluster.ticket();
      await joinCluster(config, ticket);
    };
    const b = await start('b', joining);
    await start('c', joining);

    const asked: string[] = [];
    const said: unknown[] = [];
    let deployed = 0;
    let goOn = (): void => {};
    const held = new Promise<boolean>((resolve) => {
      goOn = () => resolve(true);
    });
    const minion = await b.join('web1', {
      'site.quick': () => asked.push('quick') > 0,
      'site.held': () => {
        asked.push('held');
        return held;
      },
      'site.say': ({ kwargs: { text } }) => {
        said.push(text);
        return text === 'held' ? held : true;
      },
      'site.deployed': () => {
        deployed += 1;
        return held;
      },
    });
    const atA = connectExtension({ socketPath: a.socketPath }, 'bridge');
    const atB = connectExtension({ socketPath: b.socketPath }, 'bridge');
    const signal = { endpoint: `${service.origin}/signal`, token: 'tOken' };
    const registration = { alias: 'ready', minions: ['web1'], signal };
    await atB.call<HandleInfo>('handles.add', { registration });
    t.regex((await minion.fire('heat/ready', { data: 1 })) ?? '', /^[\w-]{32}$/);
    // The first request was handled by the member that was then killed.
    await within('a try', service.heard(1));
    const plan = { plan: 'site.roll-out', groups: { all: 'web1' } };
    const updates = atA.stream<PlanStarted | PlanUpdate>('runPlan', plan);
    const [begun] = await first(updates);
    if (begun?.type !== 'begun') return t.fail();
    await until('the second step', () => asked.includes('held'));
    const { runners } = connectMaster({ socketPath: a.socketPath });
    const { jid } = await runners.start({ fun: 'state.orchestrate', arg: ['whole'] });
    await until('the second state', () => said.includes('held'));
    heat.servers.set('server-1', [heat.entry('one', { config: 'site.deployed' })]);
    await atB.call('stacks.add', {
      registration: {
        name: 'site',
        servers: [{ server: 'server-1', minion: 'web1' }],
        login: { auth_url: `${heat.origin}/v3`, user_id: 'u', password: 'secret', project_id: 'p' },
      },
    });
    await until('the deployment', () => deployed === 1);
    const following = collect(atB.stream<PlanUpdate>('followPlan', { id: begun.id }));

    await a.master.kill();
    const killedAt = performance.now();
    service.answer = always(200, 'null');
    goOn();
    await until('the third step', () => asked.length === 3, takeOverMs + 5000);
    const outcome = (await within('the plan', following)).at(-1);
    t.like(outcome, { type: 'outcome', outcome: { id: begun.id, status: 'succeeded' } });
    t.deepEqual(asked, ['quick', 'held', 'quick']);
    const delivered = (): Promise<readonly OutboxEntry[]> =>
      atB.call<readonly OutboxEntry[]>('outbox.list', { isDelivered: true });
    while ((await delivered()).length === 0) {
      if (performance.now() - killedAt > takeOverMs) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    t.is((await delivered()).length, 1);
    const left = Math.max(1000, takeOverMs - (performance.now() - killedAt));
    await until('Heat to be told', () => heat.results.length > 0, left);
    t.deepEqual([deployed, heat.results.length], [1, 1]);
    await until('the third state', () => said.length === 3, left);
    const { jobs } = connectMaster({ socketPath: b.socketPath });
    // The job is stored when the orchestration has ended.
    await eventually('the orchestration', async () => {
      const stored = (await jobs.list()).find((job) => job.jid === jid);
      return stored !== undefined && (await jobs.show(jid)).returns.length === 1;
    });
    t.like((await jobs.show(jid)).returns, [{ success: true, fun: 'runner.state.orchestrate' }]);
    t.deepEqual(said, ['before', 'held', 'after']);
    t.deepEqual(await atB.call('outbox.list', {}), []);
    t.log(`${Math.round(performance.now() - killedAt)} ms after the kill`);
    // The attempts of member a were answered with 503.
    const { requests } = service;
    t.is(new Set(requests.map(({ body }) => body)).size, 1);
  },
);

async function first<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  for await (const item of items) return [item];
  return [];
}
