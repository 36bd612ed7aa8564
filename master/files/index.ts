export { DiskFiles } from './disk-files.ts';
export {
  type FileLists,
  type FileServer,
  type FileServerBackend,
  type FileServerOptions,
  type FileStat,
  type FoundFile,
  hiddenDirectories,
  noFiles,
  openFileRoots,
  openFileServer,
  relativePath,
  requestedFile,
  type ServedFile,
  servedFiles,
} from './file-server.ts';
export { createMemoryFiles, type MemoryContent, type MemoryFiles } from './memory-files.ts';
export { PushedFiles, pushedPath } from './pushed-files.ts';
export {
  expandRoot,
  HiddenDirectories,
  type ListKind,
  openRoots,
  PackedLists,
  walkRoots,
} from './roots.ts';
