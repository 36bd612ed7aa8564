import { readFileSync } from 'node:fs';
import test from 'ava';
import {
  LiveConfig,
  reloadableLimits,
  reloadableOptions,
} from '../../../master/config/live-config.ts';
import { limitOptions, ownOptions, saltOptions } from '../../../master/config/option-table.ts';
import type { MasterConfig } from '../../../master/config/options.ts';
import { resolveMasterConfig } from '../../../master/config/resolve.ts';

/** Another value of the same kind. */
function other(value: unknown): unknown {
  if (typeof value === 'boolean') return !value;
  if (typeof value === 'number') return value + 1;
  return typeof value === 'object' && value !== null ? { ...value, other: 'other' } : 'other';
}

function allOther(config: MasterConfig): MasterConfig {
  const { limits, eauth, ...rest } = config;
  const change = (values: object): object =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, other(value)]));
  return { ...change(rest), limits: change(limits), eauth: change(eauth) } as MasterConfig;
}

test('what may change is in force at once, and everything else is not', (t) => {
  const before = resolveMasterConfig();
  const next = allOther(before);
  const live = new LiveConfig(before);
  const { view } = live;
  live.replace(next);
  const names = Object.keys({ ...saltOptions, ...ownOptions }) as (keyof MasterConfig)[];
  for (const name of names) {
    t.deepEqual(view[name], (reloadableOptions.includes(name) ? next : before)[name], name);
  }
  for (const name of Object.keys(limitOptions) as (keyof MasterConfig['limits'])[]) {
    t.is(view.limits[name], (reloadableLimits.includes(name) ? next : before).limits[name], name);
  }
});

test('the report names options as in files, and forgets none that waits for a restart', (t) => {
  const before = resolveMasterConfig();
  const live = new LiveConfig(before);
  const next = {
    ...before,
    timeout: 9,
    retPort: 5000,
    stateDir: '/elsewhere',
    nodegroups: { web: 'web*' },
    limits: { ...before.limits, burst: 7, requestBytes: 2048 },
  };
  const needRestart = ['ret_port', 'saltbridge:state_dir', 'saltbridge:limits:request_bytes'];
  t.deepEqual(live.replace(next), {
    applied: ['timeout', 'nodegroups', 'saltbridge:limits:burst'],
    needRestart,
  });
  t.deepEqual(live.replace(next), { applied: [], needRestart });
  t.deepEqual(live.replace(before).needRestart, []);
});

test('docs/configuration.md lists what a running master takes over', (t) => {
  const document = new URL('../../../../docs/configuration.md', import.meta.url);
  const [, section = ''] = readFileSync(document, 'utf8').split('## What a running master');
  const listed = [...section.matchAll(/^\| `([\w:.*]+)`/gm)].map(([, name]) => name);
  const before = resolveMasterConfig();
  const { applied } = new LiveConfig(before).replace(allOther(before));
  const named = applied.map((name) => name.replace(/^auth\.ldap\..*/, 'auth.ldap.*'));
  t.deepEqual(listed.sort(), [...new Set(named)].sort());
});

test('nobody changes what is in force but by replacing it', (t) => {
  const { view } = new LiveConfig(resolveMasterConfig());
  t.throws(() => Object.assign(view, { timeout: 1 }), { instanceOf: TypeError });
  t.throws(() => Object.assign(view.limits, { burst: 1 }), { instanceOf: TypeError });
});
