/** Opens the file server, for files that minions fetch and files that they push. */

import { gitfsRemotesOf } from '#config';
import {
  type ExtensionHost,
  FileMeter,
  type FileServerBackend,
  masterServices,
  type OpenExtension,
} from '#master';
import { FileServer } from '../file-trees/file-server.ts';
import { openGitfs } from '../file-trees/gitfs.ts';
import { type FileServerOptions, openFileRoots } from '../file-trees/open-file-roots.ts';
import { fileServerKey, gitMirrorsOf } from '../services.ts';
import { fileRequests } from './file-requests.ts';
import { fileserverRunner } from './fileserver-runner.ts';
import { PushedFiles } from './pushed-files.ts';
import { saltutilRunner } from './saltutil-runner.ts';

/**
 * Opens the file server and the storage of pushed files.
 * @param options - sources of the files. Default: the backends in `fileserver_backend` of the
 * configuration
 */
export async function openFiles(
  host: ExtensionHost,
  options: FileServerOptions | undefined,
): Promise<OpenExtension> {
  const { config: fixed } = host;
  const context = host.use(masterServices.context);
  const contributions = host.use(masterServices.contributions);
  const auth = host.use(masterServices.auth);
  const { gate } = host.use(masterServices.users);
  const { counters, closers } = context;
  const log = context.log.child({ component: 'fileserver' });
  const mirrors = gitMirrorsOf(host);
  const openGit = (): Promise<FileServerBackend> => openGitfs(gitfsRemotesOf(fixed), mirrors);
  const configured = fixed.fileserverBackend.map((name) =>
    name === 'gitfs' ? openGit : openFileRoots,
  );
  const backends: FileServerBackend[] = [];
  for (const backend of options?.backends ?? configured) {
    backends.push(typeof backend === 'function' ? await backend(fixed, log) : backend);
  }
  await mirrors.start();
  // `contributions.files` grows later: other extensions add backends when they are opened.
  const server = closers.add(new FileServer(backends, contributions.files), (it) => it.close());
  // The bundle of a site, and with it the target of links in the roots, may have changed.
  if (fixed.site !== null) {
    host.use(masterServices.config).onChange(async () => {
      await server.refresh();
    });
  }
  host.provide(fileServerKey, server);
  host.provide(masterServices.fileEnvironments, { list: () => server.envs() });
  const pushed = new PushedFiles({
    cachedir: fixed.cachedir,
    maxFileBytes: fixed.fileRecvMaxSize * 1_048_576,
    maxMinionBytes: fixed.limits.pushedBytes,
    maxMinionFiles: fixed.limits.pushedFiles,
  });
  auth.onRetire((id) => pushed.forget(id));
  const meter = new FileMeter(fixed.limits.fileBytesPerSecond, counters);
  return {
    requests: fileRequests({
      ...{ server, meter, pushed, gate, counters },
      hashType: fixed.hashType,
      bufferBytes: fixed.fileBufferSize,
      log: context.log.child({ component: 'requests' }),
    }),
    runners: {
      ...fileserverRunner({ fileServer: server }),
      ...saltutilRunner({ fileServer: server }),
    },
  };
}
