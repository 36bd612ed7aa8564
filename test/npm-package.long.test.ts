/** The npm tarball is installed by npm with each supported version of Node.js. */

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './helpers/markdown.ts';
import { testWhere } from './helpers/needs.ts';
import { withoutNpm } from './helpers/packed-project.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const isAsked = process.env.SALTBRIDGE_PACKAGES !== undefined;
const withPackages = testWhere(isAsked, 'npm run campaign -- packages');

for (const major of [22, 24]) {
  withPackages(
    `npm installs the tarball under Node.js ${major} without a warning about engines`,
    (t) => {
      t.timeout(600_000);
      const directory = temporaryDirectory(t);
      const name = `node-linux-${process.arch}`;
      const env = withoutNpm();
      const npm = execFileSync('npm', ['root', '-g'], { encoding: 'utf8', env }).trim();
      const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund'];
      execFileSync('npm', [...install, '--prefix', directory, `${name}@${major}`], { env });
      const node = path.join(directory, 'node_modules', name, 'bin/node');
      const pack = [`${root}scripts/pack.js`, directory];
      const tarball = execFileSync(process.execPath, pack, { encoding: 'utf8' }).trim();
      const project = path.join(directory, 'project');
      mkdirSync(project);
      writeFileSync(path.join(project, 'package.json'), '{"name": "x", "version": "1.0.0"}');
      const { stderr, status } = spawnSync(
        node,
        [`${npm}/npm/bin/npm-cli.js`, ...install, tarball],
        {
          cwd: project,
          encoding: 'utf8',
          env: { ...env, PATH: `${path.dirname(node)}:${process.env.PATH}` },
        },
      );
      t.is(status, 0, stderr);
      t.notRegex(stderr, /EBADENGINE/);
      const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
      const program = path.join(project, 'node_modules/saltbridge/bin/saltbridge');
      t.is(execFileSync(node, [program, '--version'], { encoding: 'utf8' }).trim(), version);
    },
  );
}
