/**
 * Creates an empty project and installs the tarball of `scripts/pack.js` in it, like `npm install`.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { root } from './markdown.ts';

/** Packages that a TypeScript project has in addition. */
const forTypeScript: ReadonlySet<string> = new Set(['typescript', '@types/node', 'undici-types']);

/**
 * Unpacks the tarball in `node_modules` of the project, with only the packages on which it depends.
 * They are copied from this checkout, so that no network is needed.
 */
export function installPacked(
  project: string,
  { withTypeScript = true }: { readonly withTypeScript?: boolean } = {},
): void {
  const modules = path.join(project, 'node_modules');
  mkdirSync(modules, { recursive: true });
  const pack = [`${root}scripts/pack.js`, ...(withTypeScript ? [] : ['--js']), project];
  const tarball = execFileSync(process.execPath, pack, { encoding: 'utf8' }).trim();
  execFileSync('tar', ['xzf', tarball, '-C', modules]);
  renameSync(path.join(modules, 'package'), path.join(modules, 'saltbridge'));
  const lock = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8'));
  for (const [place, { dev = false }] of Object.entries<{ dev?: boolean }>(lock.packages)) {
    const [, name] = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(place) ?? [];
    const isWanted = !dev || (withTypeScript && forTypeScript.has(name ?? ''));
    if (name === undefined || !isWanted) continue;
    if (!existsSync(`${root}${place}`)) continue;
    mkdirSync(path.dirname(path.join(modules, name)), { recursive: true });
    symlinkSync(`${root}${place}`, path.join(modules, name));
  }
}

/** Returns the environment without the variables that npm sets when it runs the tests. */
export function withoutNpm(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
}
