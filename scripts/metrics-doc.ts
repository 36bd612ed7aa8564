// Writes the tables of docs/metrics.md from the metrics of a master with all extensions. With --check it
// only compares them.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { resolveMasterConfig } from '#config';
import type { SiteProgram } from '#edge';
import { createBridge } from '#guests';
import { createSilentLogger, type MetricFamily } from '#master';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { httpFamilies, processFamilies } from '#salt-api/routes/metric-families.ts';
import { createMaster } from '#server';
import { edgeExtensions } from '#server/edge-extensions.ts';
import { createMemoryStore } from '#store';
import { tableOf, updatePage } from './generated-page.ts';

/**
 * Sections of the page, each with a pattern for names of metrics. A metric belongs to the first
 * section whose pattern matches its name.
 */
const sections: readonly (readonly [string, RegExp])[] = [
  ['process', /^(?:process|nodejs)_|event_loop/],
  ['http', /_http_/],
  ['cluster', /_cluster_/],
  ['store', /_(?:store|audit)_/],
  ['bridge', /_(?:command|plan|outbox|enrolments|data|deployments?)(?:_|$)/],
  ['edge', /_(?:edge|sites)_/],
  ['jobs', /_(?:returns|job|event|events|signals)_/],
  ['requests', /./],
];

/**
 * Functions that the extension of a site requires. They do nothing, because this script only reads
 * the metrics.
 */
const program: SiteProgram = {
  check: async () => [],
  reload: async () => ({ applied: [], needRestart: [], certificates: [] }),
  restart: async () => {},
};

/** Returns the metrics of a master that has just started. */
async function families(): Promise<readonly MetricFamily[]> {
  const rootDir = mkdtempSync(path.join(tmpdir(), 'sb-metrics-'));
  const master = createMaster({
    config: resolveMasterConfig({
      rootDir,
      bridge: { guests: {} },
      site: {
        name: 'north',
        centre: 'http://127.0.0.1:1',
        behindProxy: false,
        addresses: [],
        logBytes: 2 ** 30,
        uploadBytesPerSecond: 0,
        events: [],
        alarms: [],
      },
      sites: {
        rings: { all: 100 },
        stopAtFailures: 1,
        validOfflineSeconds: 86_400,
        parallelSites: 32,
        factAheadSeconds: 300,
      },
    }),
    store: createMemoryStore(),
    transports: [createMemoryTransport().master],
    extensions: [createBridge(), ...edgeExtensions(program)],
    logger: createSilentLogger(),
  });
  try {
    await master.start();
    const http = { answers: new Map(), streams: 0, sessions: 0, refusals: {} };
    return [
      ...(await master.metrics()),
      ...httpFamilies(http),
      ...processFamilies(monitorEventLoopDelay()),
    ];
  } finally {
    await master.close();
    rmSync(rootDir, { recursive: true, force: true });
  }
}

const head = ['name', 'type', 'labels', 'meaning'];

function rowOf({ name, type, labels, help }: MetricFamily): readonly string[] {
  const names = labels.map((label) => `\`${label}\``).join(', ');
  return [`\`${name}\``, type, names, help.replaceAll('|', '\\|')];
}

/** Returns the page with tables of these metrics. */
function withMetrics(page: string, metrics: readonly MetricFamily[]): string {
  const sectionOf = ({ name }: MetricFamily): string | undefined =>
    sections.find(([, names]) => names.test(name))?.[0];
  return page.replaceAll(
    /(<!-- metrics: (\w+) -->\n\n)(?:\|.*\n)*/g,
    (_, start: string, section: string) =>
      `${start}${tableOf(head, metrics.filter((it) => sectionOf(it) === section).map(rowOf))}`,
  );
}

const metrics = await families();
updatePage('docs/metrics.md', (page) => withMetrics(page, metrics));
