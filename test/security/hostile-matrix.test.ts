/**
 * A short run of the hostile-input matrix: one case for each request type, HTTP route, RPC method,
 * function, agent route and command, and for the answers of each server that the program asks.
 * `npm run campaign -- hostile` runs it longer.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { askedServers, notSpoiled } from '../campaigns/hostile/asked-servers.ts';
import { runMatrixProcess } from '../campaigns/hostile/run-matrix.ts';

test('hostile input to each entry of the tables causes bounded work, and the honest owner is served', async (t) => {
  t.timeout(600_000);
  const report = await runMatrixProcess({ seed: 47, rounds: 1, maxBytes: 60_000 });
  t.deepEqual(report.missing, [], 'entries without a row in test/campaigns/hostile');
  t.deepEqual(report.problems, []);
  t.true(report.cases > 500, `${report.cases} cases`);
});

const root = fileURLToPath(new URL('../../', import.meta.url));
/** Folders whose code is not part of the program, or does not run in it. */
const otherFolders =
  /^(?:\..*|bench|clients|coverage|dist|docs|examples|node_modules|packaging|scripts|temp|test)$/;

/** Text in a source file that can open a connection or start another program. */
const asking = [
  /\bcreateHttpClient\(\{/,
  /(?:await |answered\()fetch\(/,
  /^import (?:http|https|net|tls)\b.* from 'node:/m,
  /^import \{[^}]*\b(?<!type )(?:connect|createConnection|get|request)\b[^}]*\} from 'node:(?:http|https|net|tls)'/m,
  /^import \{[^}]*\b(?<!type )WebSocket\b[^}]*\} from 'ws'/m,
  /^import \{[^}]*\b(?<!type )(?:exec|execFile|spawn)\b[^}]*\} from 'node:child_process'/m,
  /\bimport\('(?:ldapts|@nats-io\/transport-node)'\)/,
];

test('each file that asks another server has a row in the matrix', (t) => {
  const folders = readdirSync(root, { withFileTypes: true })
    .filter((it) => it.isDirectory() && !otherFolders.test(it.name))
    .map((it) => it.name);
  const found = folders
    .flatMap((folder) =>
      readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' }).map(
        (name) => `${folder}/${name}`,
      ),
    )
    .filter((name) => {
      if (!name.endsWith('.ts')) return false;
      const text = readFileSync(`${root}${name}`, 'utf8');
      return asking.some((pattern) => pattern.test(text));
    });
  const rows = Object.values(askedServers).flatMap(({ files }) => files);
  t.deepEqual(found.sort(), [...new Set([...rows, ...Object.keys(notSpoiled)])].sort());
});
