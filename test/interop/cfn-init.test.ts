/** `AWS::CloudFormation::Init` on real minions, each in a Debian root that is thrown away. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { allow } from '../../acl/index.ts';
import { createBridge } from '../../heat-bridge/index.ts';
import { type StandInHeat, startStandInHeat } from '../heat-bridge/deployments/stand-in-heat.ts';
import { until } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { EventLog } from './event-log.ts';
import { Fleet, runJob } from './fleet.ts';
import { MasterHome, type OurMaster } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';
import { hasThrowawayRoot } from './throwaway-root.ts';

const step = hasThrowawayRoot
  ? steps('SALT_MINION')
  : testWhere(false, 'root, Debian, overlayfs and SALT_MINION');

interface FoundFile {
  readonly mode?: string;
  readonly text?: string;
  readonly link?: string;
}

interface Case {
  readonly name: string;
  readonly init: object;
  readonly configsets?: string;
  readonly expected: {
    readonly end: 'failed' | 'refused' | 'succeeded';
    readonly files: Readonly<Record<string, FoundFile>>;
  };
}

const fixture = new URL('../../../test/fixtures/cfn-init/cases.json', import.meta.url);
const { cases }: { readonly cases: readonly Case[] } = JSON.parse(readFileSync(fixture, 'utf8'));
const anywhere = '/srv/saltbridge-cases';

interface Stage {
  readonly heat: StandInHeat;
  readonly master: OurMaster;
  readonly minion: string;
  /** Applies metadata to the minion; the result as Heat gets it. */
  readonly apply: (init: object, configSets?: string) => Promise<Readonly<Record<string, unknown>>>;
  /** What a shell prints on the minion. */
  readonly shell: (command: string) => Promise<string>;
}

const catalog = `
deployments:
  site.init:
    description: Whatever the author of the template says; made for this test alone.
    group: cfn-init
    unsafe: i-understand
    parameters: { type: object, properties: { configSets: { type: string } } }
`;

async function start(t: ExecutionContext, program: string): Promise<Stage> {
  const heat = await startStandInHeat(t);
  const place = await MasterHome.create();
  t.teardown(() => place.dispose());
  const file = path.join(place.directory, 'catalog.yaml');
  writeFileSync(file, catalog);
  const rules = [
    allow('deployments', {
      subject: { service: 'deployments' },
      action: 'command',
      resource: { fun: 'site.*', within: '*' },
    }),
  ];
  const bridge = createBridge();
  const home = place.with({
    acl: { signals: [], rules },
    bridge: {
      catalog: [file],
      handles: { endpoints: [heat.origin] },
      deployments: { poll_interval: 1 },
    },
  });
  const fleet = await Fleet.create({ ...home.ports, isThrownAway: true }, [program]);
  t.teardown(() => fleet.dispose());
  const master = await home.startHere(null, { extensions: [bridge] });
  t.teardown(() => master.close());
  await fleet.enrol(master.api, new EventLog(await master.api.events.subscribe()));
  const [minion = ''] = fleet.ids;
  await bridge.stacks.add({
    name: 'demo',
    servers: [{ server: 'server-1', minion }],
    login: { auth_url: `${heat.origin}/v3`, user_id: 'owner', password: 'secret', project_id: 'p' },
  });
  let count = 0;
  const apply: Stage['apply'] = async (init, configSets) => {
    count += 1;
    const inputs = configSets === undefined ? {} : { configSets };
    const more = { group: 'cfn-init', config: init, outputs: [] };
    heat.servers.set('server-1', [heat.entry(`case-${count}`, more, inputs)]);
    await until(`result ${count}`, () => heat.results.length >= count, 60_000);
    return heat.results[count - 1]?.values ?? {};
  };
  const shell: Stage['shell'] = async (command) => {
    const { returns } = await runJob(master.api, {
      tgt: minion,
      fun: 'cmd.run_stdout',
      kwarg: { cmd: command, python_shell: true, shell: '/bin/sh' },
    });
    return String(returns.get(minion)?.return);
  };
  return { heat, master, minion, apply, shell };
}

/** What a directory of the minion has. */
async function filesIn({ shell }: Stage, directory: string): Promise<Record<string, FoundFile>> {
  const found = await shell(`cd ${directory} && find . -type f -o -type l | while read -r f; do
    if [ -L "$f" ]; then printf '%s\\t\\t%s\\n' "$f" "$(readlink "$f")"
    else printf '%s\\t%s\\t%s\\n' "$f" "$(stat -c %a "$f")" "$(base64 -w0 "$f")"; fi
  done`);
  const lines = found.split('\n').filter((line) => line !== '');
  return Object.fromEntries(
    lines.map((line): [string, FoundFile] => {
      const [name = '', mode = '', rest = ''] = line.slice(2).split('\t');
      if (mode === '') return [name, { link: rest }];
      return [name, { mode, text: Buffer.from(rest, 'base64').toString('utf8') }];
    }),
  );
}

function endOf(values: Readonly<Record<string, unknown>>): string {
  if (values.deploy_status_code === 0) return 'succeeded';
  return String(values.deploy_stderr).startsWith('refused: ') ? 'refused' : 'failed';
}

for (const program of minionPrograms.slice(0, 2)) {
  const version = path.basename(path.dirname(path.dirname(program)));

  step(`the cases of heat-cfntools end as AWS's guide says (${version})`, async (t) => {
    const stage = await start(t, program);
    await stage.shell(`mkdir -p ${cases.map(({ name }) => `${anywhere}/${name}`).join(' ')}`);
    for (const { name, init, configsets, expected } of cases) {
      const root = `${anywhere}/${name}`;
      const local = <T>(value: T): T =>
        JSON.parse(JSON.stringify(value).replaceAll('@ROOT@', root));
      const values = await stage.apply(local(init), configsets);
      t.is(endOf(values), expected.end, `${name}: ${JSON.stringify(values)}`);
      const files = local(expected.files);
      const found = await filesIn(stage, root);
      t.deepEqual(found, files, `${name}: ${JSON.stringify(values)}`);
    }
  });
}
