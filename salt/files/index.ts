export {
  type FileLists,
  type FileServerBackend,
  type FileStat,
  type FoundFile,
  noFiles,
} from './backend.ts';
export { DiskFiles, HiddenDirectories } from './disk-files.ts';
export {
  asBackend,
  FileServer,
  type FileServerOptions,
  hiddenDirectories,
  openFileRoots,
  relativePath,
  requestedFile,
  type ServedFile,
  servedFiles,
} from './file-server.ts';
export { createFiles, type Files } from './files.ts';
export { type GitMirror, GitMirrors, isCommitId, treeOfRef } from './git-mirror.ts';
export { TreeFiles } from './gitfs.ts';
export { createMemoryFiles, type MemoryFiles } from './memory-files.ts';
export { type PushedFiles, pushedPath } from './pushed-files.ts';
export { expandRoot, type ListKind, openRoots, PackedLists, walkRoots } from './roots.ts';
