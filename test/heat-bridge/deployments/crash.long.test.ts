/**
 * A master is killed while deployments are in progress. Each deployment runs once and ends once.
 */
import test from 'ava';
import { connectExtension } from '#client';
import type { StackDetails } from '#guests';
import type { MinionFunction } from '#minion-protocol';
import { until, within } from '../../helpers/deadline.ts';
import { startKillable } from '../../helpers/killable-master.ts';
import { eventually } from '../../interop/eventually.ts';
import { startStandInHeat } from './stand-in-heat.ts';

const catalog = `
site.work: { description: x, function: site.work, reviewed: made for this test alone, timeout: 60, parameters: { type: object, properties: { text: { type: string } } } }
`;

test('after the master is killed during deployments or their signals, each ends once', async (t) => {
  const heat = await startStandInHeat(t);
  const configuration = `
auto_accept: true
timeout: 5
saltbridge:
  bridge:
    catalog: [commands.yaml]
    handles: { endpoints: ['${heat.origin}'] }
    deployments: { poll_interval: 1, retry_max_delay: 1 }
  acl:
    rules:
      work: { action: command, subject: { service: deployments }, resource: { fun: site.work, within: 'web*' } }
`;
  const field = await startKillable(t, configuration, { 'commands.yaml': catalog });
  const asked: string[] = [];
  let goOn = (): void => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const work: MinionFunction = async ({ kwargs: { text = '' } }, { id }) => {
    asked.push(`${id} ${text}`);
    if (text === 'held') await held;
    return text;
  };
  for (const id of ['web1', 'web2']) await field.join(id, { 'site.work': work });
  const stacks = connectExtension({ socketPath: field.socketPath }, 'bridge');
  const entry = (id: string, text: string) => heat.entry(id, { config: 'site.work' }, { text });
  heat.servers.set('server-1', [entry('held', 'held'), entry('after', 'after')]);
  heat.servers.set('server-2', [entry('answered', 'answered')]);
  heat.status = 503;
  await stacks.call('stacks.add', {
    registration: {
      name: 'demo',
      servers: [
        { server: 'server-1', minion: 'web1' },
        { server: 'server-2', minion: 'web2' },
      ],
      login: { auth_url: `${heat.origin}/v3`, user_id: 'u', password: 'secret', project_id: 'p' },
    },
  });
  await until('both to be begun', () => asked.length === 2);
  await until('one to be answered in vain', () => heat.results.length > 0);
  await field.master.kill();
  goOn();
  heat.results.length = 0;
  heat.status = 200;
  field.master.spawn();
  await within('the master', field.master.ready());
  await eventually('all to be over', async () => {
    const { deployments } = await stacks.call<StackDetails>('stacks.show', { name: 'demo' });
    return deployments.length === 3 && deployments.every(({ state }) => state === 'done');
  });
  t.deepEqual(asked.sort(), ['web1 after', 'web1 held', 'web2 answered']);
  t.deepEqual(
    heat.results.map(({ values }) => `${values.deploy_stdout} ${values.deploy_status_code}`).sort(),
    ['after 0', 'answered 0', 'held 0'],
  );
});
