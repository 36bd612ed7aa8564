/** What Salt made of the same files; see test/fixtures/pillar/README.md. */
import { readFileSync } from 'node:fs';
import { mergeOverride } from '../../../master/data/pillar-data.ts';
import type { PillarConfig } from '../../../master/data/pillar.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { openTree } from '../../helpers/pillar.ts';
import test from 'ava';

interface Recorded {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly roots?: readonly string[];
  readonly roots_map?: Readonly<Record<string, readonly string[]>>;
  readonly opts?: Readonly<Record<string, unknown>>;
  readonly saltenv?: string;
  readonly pillarenv?: string;
  readonly override?: WireMap;
  readonly fails?: boolean;
  readonly pillar: Encoded;
}

/** JSON cannot tell a float, nor have keys that are no text. */
type Encoded =
  | null
  | boolean
  | number
  | string
  | readonly Encoded[]
  | { readonly float: string }
  | { readonly map: readonly (readonly [Encoded, Encoded])[] };

const fixture = new URL('../../../../test/fixtures/pillar/cases.json', import.meta.url);
const recorded: { readonly grains: WireMap; readonly cases: readonly Recorded[] } = JSON.parse(
  readFileSync(fixture, 'utf8'),
);

const members: Readonly<Record<string, keyof PillarConfig>> = {
  pillar_includes_override_sls: 'pillarIncludesOverrideSls',
  pillar_merge_lists: 'pillarMergeLists',
  pillar_raise_on_missing: 'pillarRaiseOnMissing',
  pillar_safe_render_error: 'pillarSafeRenderError',
  pillar_source_merging_strategy: 'pillarSourceMergingStrategy',
  pillarenv: 'pillarenv',
  nodegroups: 'nodegroups',
  state_top: 'stateTop',
  renderer: 'renderer',
  jinja_trim_blocks: 'jinjaTrimBlocks',
  jinja_lstrip_blocks: 'jinjaLstripBlocks',
};

for (const it of recorded.cases) {
  test(`as Salt: ${it.name}`, async (t) => {
    const roots = it.roots_map ?? Object.fromEntries((it.roots ?? ['base']).map((e) => [e, [e]]));
    const options = Object.entries(it.opts ?? {}).map(([name, value]) => {
      const member = members[name];
      if (member === undefined) throw new TypeError(`no option ${name}`);
      return [member, value];
    });
    const { pillar } = await openTree(t, it.files, {
      ...Object.fromEntries(options),
      pillarRoots: roots,
    });
    const answer = await pillar.provide({
      id: 'web1',
      grains: { ...recorded.grains, id: 'web1' },
      saltenv: it.saltenv,
      pillarenv: it.pillarenv,
    });
    const whole = mergeOverride(answer.pillar, it.override ?? {}, {
      strategy: 'smart',
      mergeLists: it.opts?.pillar_merge_lists === true,
    });
    const [ours, theirs] = [fromWire(whole), fromSalt(it.pillar)];
    t.deepEqual(shortened(ours), shortened(theirs));
  });
}

test('the recorded trees are enough', (t) => {
  const lines = recorded.cases.map(({ files }) =>
    Math.max(...Object.values(files).map((text) => text.split('\n').length)),
  );
  t.true(recorded.cases.length >= 60);
  t.true(recorded.cases.filter(({ fails }) => fails).length >= 10);
  t.true(lines.filter((count) => count > 80).length >= 10);
});

/** Maps as sorted pairs, so that the order of keys does not count. */
type Canonical = null | boolean | number | string | readonly Canonical[] | { pairs: Canonical[][] };

function fromSalt(value: Encoded): Canonical {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(fromSalt);
  if ('float' in value) return Number(value.float);
  return sorted(value.map.map(([key, inner]) => [fromSalt(key), fromSalt(inner)]));
}

function fromWire(value: WireValue): Canonical {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(fromWire);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return sorted(entries.map(([key, inner]) => [fromWire(key), fromWire(inner)]));
}

function isList(value: Encoded): value is readonly Encoded[] {
  return Array.isArray(value);
}

function sorted(pairs: Canonical[][]): Canonical {
  const byText = pairs.map((pair): [string, Canonical[]] => [JSON.stringify(pair[0]), pair]);
  byText.sort(([left], [right]) => (left < right ? -1 : 1));
  return { pairs: byText.map(([, pair]) => pair) };
}

/** Of errors that tell what is wrong, Salt's own words: what follows is of its YAML, and paths. */
function shortened(value: Canonical): Canonical {
  if (typeof value === 'string')
    return value.replace(/(render error:\n(?:Jinja [^;:]*)?).*$/s, '$1');
  if (typeof value !== 'object' || value === null) return value;
  if ('pairs' in value) return { pairs: value.pairs.map((pair) => pair.map(shortened)) };
  return value.map(shortened);
}
