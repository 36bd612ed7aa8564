/** A master is killed while resources of the plug-in are running. Each of them runs once. */
import path from 'node:path';
import { HeatClient, readCloud } from '../../examples/heat/cloud.ts';
import { installPlugin } from '../../examples/heat/plugin.ts';
import { bridgeUrlOf } from '../../examples/heat/stage.ts';
import { until, within } from '../helpers/deadline.ts';
import { startKillable } from '../helpers/killable-master.ts';
import { testWhere } from '../helpers/needs.ts';

const { HEAT_ENV: file, HEAT_START: start } = process.env;

const catalog = `
site.work:
  description: x
  function: site.work
  reviewed: made for this test alone
  timeout: 120
  parameters: { type: object, properties: { text: { type: string } } }
plans:
  site.plan:
    description: x
    parameters: { type: object, properties: { text: { type: string } } }
    groups: { all: {} }
    steps: { work: { command: site.work, group: all } }
`;

testWhere(file !== undefined && start !== undefined, 'HEAT_ENV and HEAT_START')(
  'a command and a plan whose master is killed while they run complete their stack once',
  async (t) => {
    t.timeout(300_000);
    const cloud = readCloud(file ?? '');
    // heat-engine is configured for the address of the examples.
    const url = bridgeUrlOf(cloud);
    const { keystone, users } = cloud;
    const account = { url: keystone, username: 'admin', password: users.admin.password };
    await installPlugin(path.dirname(file ?? ''), start ?? '', url);
    const configuration = `
auto_accept: true
timeout: 5
saltbridge:
  api: { host: 127.0.0.1, port: ${new URL(url).port}, disable_ssl: true }
  bridge:
    catalog: [commands.yaml]
    handles: { endpoints: ${JSON.stringify([keystone, cloud.heat_api])} }
    keystone: ${JSON.stringify({ ...account, project: 'admin' })}
  acl:
    rules:
      work: { action: command, subject: { project: demo, role: member }, resource: { fun: 'site.*', within: 'web*' } }
`;
    const field = await startKillable(t, configuration, { 'commands.yaml': catalog });
    const runs: string[] = [];
    let goOn = (): void => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    await field.join('web1', {
      'site.work': async ({ kwargs: { text } }) => {
        runs.push(String(text));
        await held;
        return `run ${runs.length}`;
      },
    });
    const heat = new HeatClient(cloud, users.demo);
    const stack = await heat.create({
      heat_template_version: '2018-08-31',
      resources: {
        command: {
          type: 'OS::Saltbridge::Command',
          properties: { command: 'site.work', minions: ['web1'], params: { text: 'command' } },
        },
        plan: {
          type: 'OS::Saltbridge::Plan',
          properties: {
            plan: 'site.plan',
            groups: { all: ['web1'] },
            params: { text: 'plan' },
          },
        },
      },
      outputs: {
        return: { value: { get_attr: ['command', 'return'] } },
        status: { value: { get_attr: ['plan', 'status'] } },
      },
    });
    await until('both runs to begin', () => runs.length === 2);
    await field.master.kill();
    goOn();
    field.master.spawn();
    await within('the master', field.master.ready());
    const { status, reason, outputs } = await stack.end();
    t.is(status, 'CREATE_COMPLETE', reason);
    t.deepEqual(outputs, { return: 'run 2', status: 'succeeded' });
    t.deepEqual(runs.sort(), ['command', 'plan']);
    await stack.delete();
    t.is((await stack.end()).status, 'DELETE_COMPLETE');
  },
);
