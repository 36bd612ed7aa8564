/** The alerts and the dashboard in packaging/ use only metrics that docs/metrics.md lists. */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import test from 'ava';
import { parse } from 'yaml';
import { root } from './helpers/markdown.ts';
import { testWhere } from './helpers/needs.ts';

const alerts = `${root}packaging/prometheus/saltbridge-alerts.yaml`;
const dashboard = `${root}packaging/grafana/saltbridge.json`;
const hasPromtool = spawnSync('promtool', ['--version']).error === undefined;
const withPromtool = testWhere(hasPromtool, 'the package prometheus');

const documented = new Set(
  [...readFileSync(`${root}docs/metrics.md`, 'utf8').matchAll(/^\| `(\w+)`/gm)].map(
    ([, name]) => name,
  ),
);

function unknownIn(expressions: readonly string[]): string[] {
  const named = expressions.flatMap((it) => it.match(/\b(?:saltbridge|process|nodejs)_\w+/g) ?? []);
  return named
    .map((name) => name.replace(/_(?:bucket|sum|count)$/, ''))
    .filter((name) => !documented.has(name));
}

test('every metric of the alerts and of the dashboard is documented', (t) => {
  const { groups } = parse(readFileSync(alerts, 'utf8'));
  const rules: { readonly alert: string; readonly expr: string }[] = groups[0].rules;
  t.true(rules.length > 5);
  t.deepEqual(unknownIn(rules.map(({ expr }) => expr)), []);
  const { panels } = JSON.parse(readFileSync(dashboard, 'utf8'));
  const targets: { readonly expr: string }[] = panels.flatMap(
    (panel: { readonly targets: unknown }) => panel.targets,
  );
  t.true(targets.length > 12);
  t.deepEqual(unknownIn(targets.map(({ expr }) => expr)), []);
});

withPromtool('promtool accepts the alerts', (t) => {
  const { status, stderr } = spawnSync('promtool', ['check', 'rules', alerts], {
    encoding: 'utf8',
  });
  t.is(status, 0, stderr);
});
