/** An empty project with what `npm pack` makes in it, as `npm install` would put it there. */

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { root } from './markdown.ts';

/** Packages that a project of TypeScript has besides. */
const forTypeScript: ReadonlySet<string> = new Set(['typescript', '@types/node', 'undici-types']);

/**
 * Unpacks the tarball in the project's `node_modules`, beside the packages that it depends on and no
 * others. They come from this checkout, so that no network is needed.
 */
export function installPacked(project: string): void {
  const modules = path.join(project, 'node_modules');
  mkdirSync(modules, { recursive: true });
  const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', project];
  execFileSync('npm', pack, { cwd: root, env: withoutNpm() });
  const [tarball = ''] = readdirSync(project).filter((name) => name.endsWith('.tgz'));
  execFileSync('tar', ['xzf', path.join(project, tarball), '-C', modules]);
  renameSync(path.join(modules, 'package'), path.join(modules, 'saltbridge'));
  const lock = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8'));
  for (const [place, { dev = false }] of Object.entries<{ dev?: boolean }>(lock.packages)) {
    const [, name] = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(place) ?? [];
    if (name === undefined || (dev && !forTypeScript.has(name))) continue;
    if (!existsSync(`${root}${place}`)) continue;
    mkdirSync(path.dirname(path.join(modules, name)), { recursive: true });
    symlinkSync(`${root}${place}`, path.join(modules, name));
  }
}

/** Without what the npm that runs the tests was told. */
export function withoutNpm(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
}
