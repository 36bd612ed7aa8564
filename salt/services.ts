/** Keys under which Salt's extensions find each other's services. */

import path from 'node:path';
import { defineService, type ExtensionHost, masterServices, type ServiceKey } from '#master';
import { FileServer } from './file-trees/file-server.ts';
import { GitMirrors } from './file-trees/git-mirrors.ts';
import type { Mine } from './mine/mine.ts';
import type { PillarSource } from './render/pillar-source.ts';

export const fileServerKey: ServiceKey<FileServer> = defineService('file-server');
const gitMirrorsKey: ServiceKey<GitMirrors> = defineService('git-mirrors');
export const pillarSourceKey: ServiceKey<PillarSource> = defineService('pillar-source');
export const mineKey: ServiceKey<Mine> = defineService('mine');

/** Returns the git mirrors of the master. The first call creates them. */
export function gitMirrorsOf(host: ExtensionHost): GitMirrors {
  const found = host.find(gitMirrorsKey);
  if (found !== undefined) return found;
  const { closers, closing } = host.use(masterServices.context);
  const mirrors = new GitMirrors(path.join(host.config.cachedir, 'git'), {
    limits: host.config.git,
    log: host.use(masterServices.context).log.child({ component: 'fileserver' }),
    closing,
  });
  host.provide(
    gitMirrorsKey,
    closers.add(mirrors, (it) => it.close()),
  );
  return mirrors;
}

/** Returns the file server, or an empty one if the master has none. */
export function fileServerOf(host: ExtensionHost): FileServer {
  return host.find(fileServerKey) ?? new FileServer([]);
}
