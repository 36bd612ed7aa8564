/** Documents that name files of this repository stay true when files move. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { doctorCodes } from '../ops/diagnostics/report.ts';
import test from 'ava';

const root = fileURLToPath(new URL('../../', import.meta.url));

for (const document of ['docs/ARCHITECTURE.md', 'CONTRIBUTING.md']) {
  test(`every source file that ${document} names exists`, (t) => {
    const text = readFileSync(`${root}${document}`, 'utf8');
    const named = [...text.matchAll(/`((?:[\w-]+\/)+[\w.-]+\.ts)`/g)].map(([, file = '']) => file);
    t.true(named.length > 5);
    t.deepEqual(
      named.filter((file) => !existsSync(`${root}${file}`)),
      [],
    );
  });
}

for (const document of ['README.md', 'CONTRIBUTING.md', 'docs/ARCHITECTURE.md', 'SECURITY.md']) {
  test(`every relative link of ${document} leads somewhere`, (t) => {
    const text = readFileSync(`${root}${document}`, 'utf8');
    const folder = document.includes('/') ? document.replace(/[^/]*$/, '') : '';
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)\)/g)].map(([, link = '']) => link);
    // The reference is made by `npm run docs` and not kept.
    const kept = links.filter((link) => !link.startsWith('api/'));
    t.deepEqual(
      kept.filter((link) => !existsSync(`${root}${folder}${link}`)),
      [],
    );
  });
}

test('docs/command-line.md lists what the doctor finds, and nothing else', (t) => {
  const text = readFileSync(`${root}docs/command-line.md`, 'utf8');
  const section = text.slice(text.indexOf('## `saltbridge doctor`'));
  const codes = [...section.matchAll(/^\| `([a-z0-9-]+)` /gm)].map(([, code]) => code);
  t.deepEqual(codes, [...doctorCodes]);
});
