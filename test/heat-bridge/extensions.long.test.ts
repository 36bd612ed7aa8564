/**
 * Extensions of the bridge that are left out: their code is not loaded, and they add nothing to the
 * master.
 */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { type BridgeExtensionName, createBridge } from '#guests';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import type { ProbeReport } from './bridge-probe.ts';

const run = promisify(execFile);
const probe = fileURLToPath(new URL('bridge-probe.ts', import.meta.url));

async function reportOf(
  t: ExecutionContext,
  bridge: object,
  extensions: Readonly<Partial<Record<BridgeExtensionName, boolean>>> = {},
): Promise<ProbeReport> {
  const args = [temporaryDirectory(t), JSON.stringify(bridge), JSON.stringify(extensions)];
  const { stdout } = await run(process.execPath, [probe, ...args]);
  return JSON.parse(stdout);
}

/** A configuration section for each extension. */
const sections = {
  runs: {},
  enroll: {},
  handles: {},
  deployments: {},
  murano: { unsigned: true },
  guests: { agents: {} },
};

/** Names that an extension adds to the master, as prefixes. */
interface Traits {
  /** Matches the paths of its modules. */
  readonly modules: RegExp;
  /** Configuration sections that only this extension has. */
  readonly section: Partial<typeof sections>;
  readonly methods: RegExp | undefined;
  readonly routes: RegExp;
  readonly metrics?: RegExp;
  /** Extensions that it requires. */
  readonly with?: readonly BridgeExtensionName[];
}

const traits: Readonly<Record<BridgeExtensionName, Traits>> = {
  commands: {
    // Definitions of commands and plans are part of the library's public interface.
    modules: /^heat-bridge\/(?:commands|plans)\/.*(?:-api|-extension|-routes|-runner?)\.ts$/,
    section: { runs: {} },
    methods: /^(?:run|list|show|plans|runPlan|cancelPlan)\b/,
    routes: /^\/(?:commands|runs|plans|plan-runs)/,
    metrics: /^saltbridge_(?:command|plan)_runs/,
    with: ['deployments', 'murano'],
  },
  enrolment: {
    modules: /^heat-bridge\/enroll\//,
    section: { enroll: {} },
    methods: /^enroll\./,
    routes: /^\/(?:enroll\/|enrolments)/,
    metrics: /^saltbridge_enrolments/,
    with: ['data-spaces', 'metadata-agent'],
  },
  signals: {
    modules: /^heat-bridge\/signals\//,
    section: { handles: {} },
    methods: /^(?:handles|outbox)\./,
    routes: /^\/(?:handles|guest\/signals)/,
    metrics: /^saltbridge_outbox/,
    with: ['deployments'],
  },
  deployments: {
    modules: /^guests\/deployments\//,
    section: { deployments: {} },
    methods: /^stacks\./,
    routes: /^\/stacks/,
    metrics: /^saltbridge_deployment/,
  },
  murano: {
    modules: /^guests\/murano\//,
    section: { murano: { unsigned: true } },
    methods: undefined,
    routes: /^\/murano/,
  },
  'metadata-agent': {
    modules: /^guests\/metadata-agent\//,
    section: {},
    methods: undefined,
    routes: /^\/(?:guest\/enroll|vendordata)/,
  },
  'data-spaces': {
    modules: /^guests\/(?:data-spaces|peers)\//,
    section: {},
    methods: /^data\./,
    routes: /^\/(?:data|guest\/(?:data|peers|signals|saltbridge-data))/,
    metrics: /^saltbridge_data_/,
  },
};

const names = Object.keys(traits) as BridgeExtensionName[]; // the keys of a record of these names

function without(name: BridgeExtensionName): object {
  const rest = Object.entries(sections).filter(([key]) => !(key in traits[name].section));
  const guests = name === 'metadata-agent' ? {} : sections.guests;
  return { ...Object.fromEntries(rest), guests };
}

for (const name of names) {
  test(`${name}: if it is left out, it loads no module and adds no method, route or metric`, async (t) => {
    const { modules, methods, routes, metrics, with: others = [] } = traits[name];
    const all = await reportOf(t, sections);
    t.true(all.loaded.some((it) => modules.test(it)));
    t.true(all.routes.some((it) => routes.test(it)));
    if (methods !== undefined) t.true(all.methods.some((it) => methods.test(it)));
    if (metrics !== undefined) t.true(all.metrics.some((it) => metrics.test(it)));
    const left = await reportOf(t, without(name), { [name]: false });
    t.deepEqual(
      left.loaded.filter((it) => modules.test(it)),
      [],
    );
    t.deepEqual(
      left.routes.filter((it) => routes.test(it)),
      [],
    );
    if (methods !== undefined)
      t.deepEqual(
        left.methods.filter((it) => methods.test(it)),
        [],
      );
    if (metrics !== undefined)
      t.deepEqual(
        left.metrics.filter((it) => metrics.test(it)),
        [],
      );
    for (const other of others) {
      t.deepEqual(
        left.loaded.filter((it) => traits[other].modules.test(it)),
        [],
        other,
      );
    }
    t.is(left.files, ['data-spaces', 'enrolment'].includes(name) ? 0 : 1);
  });

  const [[key, value] = []] = Object.entries(traits[name].section);
  if (key !== undefined) {
    test(`${name}: if the program leaves it out, its option is unknown`, async (t) => {
      const config = { bridge: { [key]: value } };
      const bridge = createBridge({ extensions: { [name]: false } });
      const starting = startVectorMaster(t, { config, extensions: [bridge] });
      await t.throwsAsync(starting, {
        code: 'ERR_BRIDGE_OPTIONS',
        message: new RegExp(`saltbridge:bridge:${key}: there is no such key`),
      });
    });
  }
}

test('metadata-agent: if the program leaves it out, its options are unknown', async (t) => {
  const config = { bridge: { guests: { agents: {} } } };
  const bridge = createBridge({ extensions: { 'metadata-agent': false } });
  await t.throwsAsync(startVectorMaster(t, { config, extensions: [bridge] }), {
    code: 'ERR_BRIDGE_OPTIONS',
    message: /saltbridge:bridge:guests:agents: there is no such key/,
  });
});

test('a section that is false disables its extension', async (t) => {
  const bridge = { ...sections, deployments: false, murano: false, guests: false };
  const { loaded, methods, files, runners } = await reportOf(t, bridge);
  t.deepEqual(
    loaded.filter((it) => /^guests\/[^/]+\//.test(it)),
    [],
  );
  t.deepEqual(
    methods.filter((it) => /^(?:data|stacks)\./.test(it)),
    [],
  );
  t.is(files, 0);
  t.deepEqual(runners, []);
});

test('without a configured data space, minions get no files of the bridge', async (t) => {
  const { loaded, files, runners } = await reportOf(t, {});
  t.is(files, 0);
  t.deepEqual(runners, []);
  t.deepEqual(
    loaded.filter((it) => /^guests\/(?:data-spaces|metadata-agent|murano)\//.test(it)),
    [],
  );
});

test('templates are compiled without code of other extensions', async (t) => {
  const { loaded } = await reportOf(t, sections);
  t.deepEqual(
    loaded.filter((it) => it.startsWith('guests/templates/')),
    [],
  );
});
