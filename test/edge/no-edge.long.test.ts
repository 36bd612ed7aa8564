/** A master without sites loads no code of them. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const run = promisify(execFile);
const probe = fileURLToPath(new URL('edge-probe.ts', import.meta.url));

interface Report {
  readonly loaded: readonly string[];
  readonly methods: readonly string[];
  readonly routes: readonly string[];
}

async function reportOf(t: ExecutionContext, sections: object): Promise<Report> {
  const args = [probe, temporaryDirectory(t), JSON.stringify(sections)];
  const { stdout } = await run(process.execPath, args);
  return JSON.parse(stdout);
}

test('a master without site and sites loads no module of the edge and adds no method or route', async (t) => {
  const report = await reportOf(t, {});
  t.deepEqual(report.loaded, []);
  t.deepEqual(report.methods, []);
  t.deepEqual(report.routes, []);
});

test('a centre and a site load the modules of the edge', async (t) => {
  const centre = await reportOf(t, { sites: {} });
  t.true(centre.loaded.length > 0);
  t.true(centre.methods.includes('site.list'));
  t.deepEqual(centre.routes, ['/site/v1']);
  const site = await reportOf(t, { site: { name: 'north', centre: 'http://127.0.0.1:9' } });
  t.true(site.methods.includes('edge.status'));
  t.deepEqual(site.routes, []);
});
