/** What Salt made of the same files; see test/fixtures/reactor/README.md. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import type { PlannedCall } from '../../../master/reactor/reaction-planner.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { planFiles } from './plan-files.ts';

interface RecordedCall {
  readonly kind: 'run' | 'runner' | 'wheel';
  readonly fun: string;
  readonly tgt?: WireValue;
  readonly tgt_type?: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
}

interface Recorded {
  readonly name: string;
  readonly tag: string;
  readonly data: WireMap;
  readonly files: Readonly<Record<string, string>>;
  readonly fails?: boolean;
  readonly calls: readonly RecordedCall[];
}

interface Spec {
  readonly names: readonly string[];
  readonly defaults: WireMap;
  readonly more: boolean;
}

const fixture = new URL('../../../../test/fixtures/reactor/cases.json', import.meta.url);
const recorded: {
  readonly takes: Readonly<Record<string, Spec>>;
  readonly cases: readonly Recorded[];
} = JSON.parse(readFileSync(fixture, 'utf8'));

for (const it of recorded.cases) {
  test(`as Salt: ${it.name}`, async (t) => {
    const { directory, plan } = await planFiles(t, it.files, {
      takes: (kind, fun, name) => {
        const spec = recorded.takes[`${kind}.${fun}`];
        return spec?.more === true || spec?.names.includes(name) === true;
      },
    });
    const event = { tag: it.tag, sender: undefined, data: undefined, body: it.data };
    const { calls, refused } = await plan(path.join(directory, 'react.sls'), event);
    t.deepEqual(calls.map(ofOurs), it.calls.map(ofSalt));
    t.is(refused.length > 0, it.fails === true);
  });
}

test('the recorded files are enough', (t) => {
  t.true(recorded.cases.length >= 50);
  t.true(recorded.cases.filter(({ fails }) => fails).length >= 15);
});

/** A target as one list, and every argument that has a name by it, without defaults. */
function ofOurs(call: PlannedCall): unknown {
  if (call.kind !== 'run') return { kind: call.kind, fun: call.fun, kwarg: named(call) };
  const { tgt, tgtType = 'glob' } = call.target;
  return { kind: 'run', fun: call.fun, tgt, tgtType, arg: call.arg, kwarg: call.kwarg };
}

function ofSalt(call: RecordedCall): unknown {
  if (call.kind !== 'run') return { kind: call.kind, fun: call.fun, kwarg: named(call) };
  const { fun, arg, kwarg, tgt, tgt_type: tgtType = 'glob' } = call;
  const isText = tgtType === 'list' && typeof tgt === 'string';
  return { kind: 'run', fun, tgt: isText ? tgt.split(',') : tgt, tgtType, arg, kwarg };
}

function named({
  kind,
  fun,
  arg,
  kwarg,
}: Pick<PlannedCall, 'kind' | 'fun' | 'arg' | 'kwarg'>): WireMap {
  const spec: Spec = recorded.takes[`${kind}.${fun}`] ?? { names: [], defaults: {}, more: false };
  const { names, defaults } = spec;
  const all = { ...Object.fromEntries(arg.map((value, at) => [names[at] ?? '', value])), ...kwarg };
  return Object.fromEntries(
    Object.entries(all)
      .filter(([name, value]) => !Object.hasOwn(defaults, name) || defaults[name] !== value)
      .sort(([left], [right]) => (left < right ? -1 : 1)),
  );
}
