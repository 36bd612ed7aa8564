/** A master is killed while a deployment of a real Heat is running. The deployment ends once. */
import { connectExtension } from '#client';
import type { CollectConfig } from '#guests';
import { until, within } from '../helpers/deadline.ts';
import { startKillable } from '../helpers/killable-master.ts';
import { heatTest, services } from './heat-cloud.ts';
import { TemplateStack } from './heat-stack.ts';

const catalog = `
site.work: { description: x, function: site.work, reviewed: made for this test alone, timeout: 120 }
`;

heatTest(
  'a deployment whose master is killed while it runs completes its stack once',
  async (t) => {
    const endpoints = JSON.stringify(services());
    const configuration = `
auto_accept: true
timeout: 5
saltbridge:
  bridge:
    catalog: [commands.yaml]
    handles: { endpoints: ${endpoints} }
    deployments: { poll_interval: 1, retry_max_delay: 1 }
  acl:
    rules:
      work: { action: command, subject: { service: deployments }, resource: { fun: site.work, within: 'web*' } }
`;
    const field = await startKillable(t, configuration, { 'commands.yaml': catalog });
    let runs = 0;
    let goOn = (): void => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    await field.join('web1', {
      'site.work': async () => {
        runs += 1;
        await held;
        return `run ${runs}`;
      },
    });
    const stack = await TemplateStack.create({
      heat_template_version: '2018-08-31',
      resources: {
        server: {
          type: 'OS::Heat::DeployedServer',
          properties: { software_config_transport: 'POLL_SERVER_HEAT' },
        },
        config: {
          type: 'OS::Heat::SoftwareConfig',
          properties: { group: 'saltbridge', config: 'site.work', outputs: [{ name: 'result' }] },
        },
        work: {
          type: 'OS::Heat::SoftwareDeployment',
          properties: {
            server: { get_resource: 'server' },
            config: { get_resource: 'config' },
            signal_transport: 'HEAT_SIGNAL',
          },
        },
      },
      outputs: {
        collect: { value: { get_attr: ['server', 'os_collect_config'] } },
        result: { value: { get_attr: ['work', 'result'] } },
      },
    });
    t.teardown(() => stack.delete());
    const collect = await stack.collectConfig<CollectConfig>('collect');
    const bridge = connectExtension({ socketPath: field.socketPath }, 'bridge');
    const servers = [{ server: 'server', minion: 'web1', collect }];
    await bridge.call('stacks.add', { registration: { name: 'demo', servers } });
    await until('the run to begin', () => runs === 1);
    await field.master.kill();
    goOn();
    field.master.spawn();
    await within('the master', field.master.ready());
    const { status, reason, outputs } = await stack.end('CREATE');
    t.is(status, 'CREATE_COMPLETE', reason);
    t.is(outputs.get('result'), 'run 1');
    t.is(runs, 1);
  },
);
