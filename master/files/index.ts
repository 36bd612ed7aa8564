export {
  type FileLists,
  type FileServerBackend,
  type FileStat,
  type FoundFile,
  noFiles,
} from './backend.ts';
export { DiskFiles, HiddenDirectories } from './disk-files.ts';
export {
  type FileServer,
  type FileServerOptions,
  hiddenDirectories,
  openFileRoots,
  openFileServer,
  relativePath,
  requestedFile,
  type ServedFile,
  servedFiles,
} from './file-server.ts';
export { createMemoryFiles, type MemoryFiles } from './memory-files.ts';
export { PushedFiles, pushedPath } from './pushed-files.ts';
export { expandRoot, type ListKind, openRoots, PackedLists, walkRoots } from './roots.ts';
