/** The alerts and the dashboard in packaging/ use documented metrics, and have a runbook. */

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

test('each alert has a section in the runbook', (t) => {
  const { groups } = parse(readFileSync(alerts, 'utf8'));
  const named: string[] = groups[0].rules.map(({ alert }: { readonly alert: string }) => alert);
  const text = readFileSync(`${root}docs/runbook.md`, 'utf8');
  const sections = [...text.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
  t.deepEqual([...sections].sort(), [...named].sort());
});

withPromtool('alerts on sites fire for sites that are away, behind, full or refusing', (t) => {
  const rules = `${root}test/fixtures/site-alerts.yaml`;
  const { status, stderr, stdout } = spawnSync('promtool', ['test', 'rules', rules], {
    encoding: 'utf8',
  });
  t.is(status, 0, stdout + stderr);
});

withPromtool('promtool accepts the alerts', (t) => {
  const { status, stderr } = spawnSync('promtool', ['check', 'rules', alerts], {
    encoding: 'utf8',
  });
  t.is(status, 0, stderr);
});
