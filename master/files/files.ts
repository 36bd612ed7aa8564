/** Opens the file server, and what minions push. */

import type { Auth } from '../auth/index.ts';
import type { LiveConfig } from '../config/index.ts';
import type { MasterContext } from '../context/index.ts';
import type { FileServerBackend } from './backend.ts';
import { FileServer, type FileServerOptions, openFileRoots } from './file-server.ts';
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
}

/** @param options default: the `file_roots` of the configuration */
export async function createFiles(
  { config: { fixed }, context, auth, extensionFiles }: FileDeps,
  options: FileServerOptions | undefined,
): Promise<Files> {
  const log = context.log.child({ component: 'fileserver' });
  const backends: FileServerBackend[] = [];
  for (const backend of options?.backends ?? [openFileRoots]) {
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
  return { server: context.closers.add(server, (it) => it.close()), pushed };
}
