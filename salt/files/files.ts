/** Opens the file server, and what minions push. */

import path from 'node:path';
import { gitfsRemotesOf, type LiveConfig } from '#config';
import type { Auth } from '#master/auth/index.ts';
import type { MasterContext } from '#master/context/index.ts';
import type { FileServerBackend } from './backend.ts';
import { FileServer, type FileServerOptions, openFileRoots } from './file-server.ts';
import { GitMirrors } from './git-mirror.ts';
import { openGitfs } from './gitfs.ts';
import { PushedFiles } from './pushed-files.ts';

export interface FileDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  /** Those of extensions; asked after all others. */
  readonly extensionFiles: readonly FileServerBackend[];
}

/** Files that minions get, and files that they push. */
export interface Files {
  readonly server: FileServer;
  readonly pushed: PushedFiles;
  /** Repositories of git, fetched by the clock once they are started. */
  readonly mirrors: GitMirrors;
}

/** @param options default: what `fileserver_backend` of the configuration names */
export async function createFiles(
  { config: { fixed }, context, auth, extensionFiles }: FileDeps,
  options: FileServerOptions | undefined,
): Promise<Files> {
  const log = context.log.child({ component: 'fileserver' });
  const backends: FileServerBackend[] = [];
  const mirrors = new GitMirrors(path.join(fixed.cachedir, 'git'), {
    limits: fixed.git,
    log,
    closing: context.closing,
  });
  context.closers.add(mirrors, (it) => it.close());
  const openGit = (): Promise<FileServerBackend> => openGitfs(gitfsRemotesOf(fixed), mirrors);
  const configured = fixed.fileserverBackend.map((name) =>
    name === 'gitfs' ? openGit : openFileRoots,
  );
  for (const backend of options?.backends ?? configured) {
    backends.push(typeof backend === 'function' ? await backend(fixed, log) : backend);
  }
  const server = new FileServer([...backends, ...extensionFiles]);
  const pushed = new PushedFiles({
    cachedir: fixed.cachedir,
    maxFileBytes: fixed.fileRecvMaxSize * 1_048_576,
    maxMinionBytes: fixed.limits.pushedBytes,
    maxMinionFiles: fixed.limits.pushedFiles,
  });
  auth.onRetire((id) => pushed.forget(id));
  return { server: context.closers.add(server, (it) => it.close()), pushed, mirrors };
}
