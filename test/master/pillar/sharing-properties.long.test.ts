/** Shared pillars are equal to those that are rendered for each minion. */

import test from 'ava';
import * as fc from 'fast-check';
import type { WireMap } from '#minion-protocol';
import { openTree } from '../../helpers/pillar.ts';

/** Values of late grains: usual ones, and ones that mean something else in YAML or JSON. */
const texts = fc.oneof(
  { weight: 4, arbitrary: fc.stringMatching(/^[a-z][a-z0-9]{0,5}(?:[.:-][a-z0-9]{1,4}){0,2}$/) },
  { weight: 2, arbitrary: fc.stringMatching(/^[0-9]{1,4}(?:[.:_e-][0-9]{1,3}){0,2}$/) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ...['yes', 'null', 'off', 'e5', '1e5', '0x1f', 'x1f', '2024-01-02', '12:30:45', 'n', 'u0041'],
      ...['fe80::1', '::1', '10.0.0.1', '-', '---', '...', '~', '', ' ', 'a b', 'a: b', 'a #b'],
      ...['#', '&a', '*a', '!!int 1', '"', "'", '\\', 'x\ny: 1', '[', '{', '}', '%', '@', '|', '>'],
      ...['{{ 1 }}', 'qz', 'web1', 'k1', 'inf', 'nan', 'set', 'ull', 'é', '\u2028'],
    ),
  },
  { weight: 1, arbitrary: fc.string({ maxLength: 6 }) },
);

/** Expressions that use late grains. */
const uses = fc.constantFrom(
  ...['grains.id', "grains['host']", "grains.get('fqdn')", "grains.get('fqdn', 'none')"],
  ...["salt['grains.get']('host')", "salt['grains.get']('ip:eth0')", 'grains.ipv4[0]', 'opts.id'],
  ...["grains['ip']['eth0']", 'opts.minion_id', "salt['config.get']('id')", 'late', 'addresses[0]'],
  ...['grains.ipv4', 'grains.host | upper', 'grains.id ~ grains.host', "grains.host == 'web1'"],
  ...['grains.host[:2]', "'%s' | format(grains.host)", 'grains.ipv4 | join(",")', 'macro()'],
  ...["grains.host if grains.os == 'a' else grains.fqdn", 'grains.host is defined', 'text', '1'],
  ...['grains.host | yaml_dquote', 'grains.ip', 'grains.os', 'grains.ipv4[1]', 'grains.ip.eth1'],
);

/** Places in YAML. `@` is replaced by an expression, `#` by a number. */
const places = fc.constantFrom(
  ...['k#: @', 'k#: "@"', "k#: '@'", 'k#: a-@-b', 'k#: 1@', 'k#: 0x@', 'k#: @@', 'k#: "\\@"'],
  ...['k#: "\\x@"', 'k#: [@, "@"]', 'k#: {a: @, b: "@"}', 'k#: {@: 1}', 'k#:\n  - @\n  - x: @'],
  ...['k#: |\n  @\n  # @', 'k#: >\n  a @\n  @', 'k#: |@\n  a', '@: 1', '"@": 1', 'k#:@', '# @'],
  ...['k#: 1 # @', 'k#: &@ 1', 'k#: !!str @', 'k#: !!binary @', 'k#: !!set {@, web1}', 'k#: -@'],
  ...['k#: .@', 'k#: @.', 'k#: 1:@', 'k#: @:', 'k#: @ b', "k#: 'it''s @'", 'k#: 2024-01-@'],
  ...['k#: !!int "@"', 'k#: &x# @\nl#: *x#', 'k#: {a: {@}}', '--@', 'include: [@]', 'k#: &a@ 1'],
  ...['{% if @ %}k#: 1{% endif %}', '{% for c in [@, 1] %}{{ c }}{% endfor %}: 1', 'k#: @\n  @'],
  ...[
    '{% do grains.ipv4.append("x") %}k#: @',
    '{% set late = grains.id %}k#: @',
    'k#: yes@',
    'k#: n@',
  ],
  ...['? @\n: 1', 'k#: ~@', 'k#: *@', 'k#:\n  <<: {a: @}\n  b: 1', 'web1: {@: 2}', '%@', 'k#: 1e@'],
);

const prelude =
  "{% set late = grains.host %}{% set addresses = salt['grains.get']('ipv4') %}{% macro macro() %}{{ grains.host }}{% endmacro %}{% set text %}{{ grains.host }}{% endset %}\n";

const lines = fc.array(fc.tuple(places, fc.array(uses, { minLength: 2, maxLength: 2 })), {
  minLength: 1,
  maxLength: 4,
});

function sourceOf(parts: readonly (readonly [string, readonly string[]])[]): string {
  const texts = parts.map(([place, expressions], index) => {
    let used = 0;
    const isStatement = place.startsWith('{%');
    return place.replaceAll('k#', `k${index}`).replace(/@/g, () => {
      const expression = expressions[used % expressions.length] ?? '1';
      used += 1;
      return isStatement && used === 1 && !place.includes('k#: @')
        ? expression
        : `{{ ${expression} }}`;
    });
  });
  return prelude + texts.join('\n') + (parts.length % 2 === 0 ? '' : '\n');
}

const minions = fc.array(
  fc.record(
    {
      host: fc.oneof({ weight: 9, arbitrary: texts }, fc.constantFrom<unknown>(7, true, ['a'])),
      fqdn: texts,
      ipv4: fc.array(texts, { maxLength: 2 }),
      ip: fc.record({ eth0: texts, eth1: fc.oneof(texts, fc.constant(1)) }, { requiredKeys: [] }),
      os: fc.constantFrom('a', 'b'),
    },
    { requiredKeys: ['os'] },
  ),
  { minLength: 2, maxLength: 5 },
);

const ids = ['web1', 'db-2.example.org', '10', 'k1', '1e5'];

const options = fc.record({
  pillarMergeLists: fc.boolean(),
  pillarSafeRenderError: fc.boolean(),
  pillarSourceMergingStrategy: fc.constantFrom('smart' as const, 'list' as const),
});

const runs = Number(process.env.SHARING_RUNS ?? 60);

test('a shared pillar is equal to one that is rendered for the minion', async (t) => {
  let shared = 0;
  await fc.assert(
    fc.asyncProperty(lines, lines, minions, options, async (first, second, fleet, config) => {
      const tree = {
        'base/top.sls': "base:\n  '*': [a]\n  'os:b':\n    - match: grain\n    - b\n",
        'base/a.sls': sourceOf(first),
        'base/b.sls': sourceOf(second),
      };
      const [together, alone] = await Promise.all([
        openTree(t, tree, config),
        openTree(t, tree, config, async () => ({ isShared: false })),
      ]);
      for (const round of [1, 2]) {
        for (const [index, grains] of fleet.entries()) {
          const id = ids[index] ?? `m${index}`;
          const request = { id, saltenv: undefined, pillarenv: undefined };
          // The grains are those of a wire message, in which values have any type.
          const its = { ...(grains as WireMap), id };
          const got = await together.pillar.provide({ ...request, grains: its });
          const expected = await alone.pillar.provide({ ...request, grains: its });
          t.deepEqual(got, expected, `${round} ${id}\n${tree['base/a.sls']}${tree['base/b.sls']}`);
        }
      }
      if (together.pillar.made < alone.pillar.made) shared += 1;
      await together.pillar.close();
      await alone.pillar.close();
    }),
    { numRuns: runs },
  );
  t.true(shared > 0, 'some pillars must be shared');
});
