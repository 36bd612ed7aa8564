/**
 * Deployments of a real Heat on two real minions: a command, a state file, inline SLS and a script.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import type { CommandDefinition } from '#heat-bridge';
import { testWhere } from '../helpers/needs.ts';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { cloud, services } from './heat-cloud.ts';
import { applicationCredential, TemplateStack } from './heat-stack.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step =
  cloud === undefined ? testWhere(false, 'HEAT_ENV and SALT_MINION') : steps('SALT_MINION');
const script = `#!/bin/sh
echo "for $who on $(uname -s)"
printf %s "$who" > $heat_outputs_path.greeted
printf %s "$deploy_action $deploy_resource_name" > $heat_outputs_path.facts
head -c 70003 /dev/zero | tr '\\0' a > $heat_outputs_path.long
echo careful >&2
`;
const sls = `{{ pillar['place'] }}:
  file.managed:
    - contents: {{ (opts['content'] ~ ' ' ~ pillar['deploy_action']) | yaml_dquote }}
`;
const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
const commands: readonly CommandDefinition[] = [
  {
    name: 'demo.echo',
    description: 'Gives back a text.',
    function: 'test.echo',
    parameters: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } },
  },
  {
    name: 'demo.write',
    description: 'Writes a file.',
    state: 'written',
    reviewed: 'made for this test alone: it writes one file',
    parameters: { type: 'object', properties: { content: { type: 'string' } } },
  },
];
const bridge = createBridge({ commands });

let home: MasterHome;
let fleet: Fleet;
let master: OurMaster;

test.before(async () => {
  if (process.env.SALT_MINION === undefined || cloud === undefined) return;
  const place = await MasterHome.create();
  const roots = path.join(place.directory, 'files');
  mkdirSync(roots);
  const file = path.join(place.directory, 'written');
  writeFileSync(
    path.join(roots, 'written.sls'),
    `${file}:\n  file.managed:\n    - contents: {{ pillar['content'] | yaml_dquote }}\n`,
  );
  const catalog = path.join(place.directory, 'catalog.yaml');
  writeFileSync(
    catalog,
    `deployments:
  site.greet:
    description: Greets.
    group: script
    sha256: [${digestOf(script)}]
    parameters: { type: object, properties: { who: { type: string } } }
  site.place:
    description: Writes a file.
    group: salt
    sha256: [${digestOf(sls)}]
    parameters:
      type: object
      properties:
        place: { type: string }
        content: { type: string, x-quoted-by-template: true }
`,
  );
  const rules = [
    allow('deployments', {
      subject: { service: 'deployments' },
      action: 'command',
      resource: { fun: ['demo.*', 'site.*'], within: 'salt-*' },
    }),
  ];
  home = place.with({
    acl: { signals: [], rules },
    fileRoots: { base: [roots] },
    bridge: {
      catalog: [catalog],
      handles: { endpoints: services() },
      deployments: { poll_interval: 1 },
    },
  });
  fleet = await Fleet.create(home.ports, minionPrograms.slice(0, 2));
  master = await home.startHere(null, { extensions: [bridge] });
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
});

test.after.always(async () => {
  await fleet?.dispose();
  await master?.close();
  home?.dispose();
});

/** Returns a config with its deployment and outputs. */
function deployment(
  name: string,
  server: string,
  config: object,
  input: Readonly<Record<string, string>>,
  outputs: readonly string[],
): { readonly resources: object; readonly outputs: object } {
  return {
    resources: {
      [`${name}_config`]: {
        type: 'OS::Heat::SoftwareConfig',
        properties: {
          ...config,
          inputs: Object.keys(input).map((it) => ({ name: it })),
          outputs: outputs.map((it) => ({ name: it })),
        },
      },
      [name]: {
        type: 'OS::Heat::SoftwareDeployment',
        properties: {
          server: { get_resource: server },
          config: { get_resource: `${name}_config` },
          signal_transport: 'HEAT_SIGNAL',
          input_values: input,
        },
      },
    },
    outputs: Object.fromEntries(
      [...outputs, 'deploy_stdout', 'deploy_stderr', 'deploy_status_code'].map((it) => [
        `${name}_${it}`,
        { value: { get_attr: [name, it] } },
      ]),
    ),
  };
}

step('deployments on two real minions end as outputs of their stack', async (t) => {
  const [first = '', second = first] = fleet.ids;
  const place = path.join(home.directory, 'placed');
  const slsInputs = { place, content: `a "quoted" text: {{ 1 + 1 }}` };
  const all = [
    deployment('echo', 'one', { group: 'saltbridge', config: 'demo.echo' }, { text: 'hi' }, [
      'result',
    ]),
    deployment('state', 'two', { group: 'salt', config: 'written' }, { content: 'as pillar' }, []),
    deployment('sls', 'one', { group: 'salt', config: sls }, slsInputs, []),
    deployment('script', 'two', { group: 'script', config: script }, { who: "it's $HOME" }, [
      'greeted',
      'facts',
      'long',
    ]),
  ];
  const server = (minion: string): object => ({
    type: 'OS::Heat::DeployedServer',
    metadata: { 'saltbridge:minion': minion },
    properties: { software_config_transport: 'POLL_SERVER_HEAT' },
  });
  const stack = await TemplateStack.create({
    heat_template_version: '2018-08-31',
    resources: Object.assign(
      { one: server(first), two: server(second) },
      ...all.map(({ resources }) => resources),
    ),
    outputs: Object.assign({}, ...all.map(({ outputs }) => outputs)),
  });
  t.teardown(() => stack.delete());
  await bridge.stacks.add({
    name: 'demo',
    stack: stack.path,
    login: await applicationCredential(),
    minions: fleet.ids,
  });
  const { status, reason, outputs } = await stack.end('CREATE');
  t.is(status, 'CREATE_COMPLETE', reason);
  t.is(outputs.get('echo_result'), 'hi');
  t.is(readFileSync(path.join(home.directory, 'written'), 'utf8').trim(), 'as pillar');
  t.is(readFileSync(place, 'utf8').trim(), `${slsInputs.content} CREATE`);
  t.is(outputs.get('script_facts'), 'CREATE script');
  t.true(outputs.get('script_long') === 'a'.repeat(70_003));
  t.is(outputs.get('script_greeted'), "it's $HOME");
  t.is(outputs.get('script_deploy_stdout'), "for it's $HOME on Linux\n");
  t.regex(String(outputs.get('script_deploy_stderr')), /careful/);
  for (const name of ['echo', 'state', 'sls', 'script']) {
    t.is(String(outputs.get(`${name}_deploy_status_code`)), '0');
  }
});
