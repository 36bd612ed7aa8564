export { type Auth, createAuth } from './auth.ts';
export type { KeyChange } from './key-changer.ts';
export { KeyError } from './key-errors.ts';
export { keyOwner } from './key-generator.ts';
export type { KeyLifecycle, KeyLoss } from './key-lifecycle.ts';
export { keyMarks } from './key-marks.ts';
export type { KeyStore } from './key-store.ts';
export type { LastRequests, RequestSource } from './last-requests.ts';
export { openMasterKeys, preparePrivateDirectories, readMasterSignature } from './master-keys.ts';
export { type OfflineKeys, openOfflineKeys } from './offline-keys.ts';
export {
  type KeyFile,
  type KeyFiles,
  keyPlaces,
  PkiDir,
  placeDirectories,
  watchPkiDir,
} from './pki-directory.ts';
export type { PublishKey } from './publish-key.ts';
export {
  DropConnectionError,
  type Handler,
  type Reply,
  requestOwner,
  send,
  sendLater,
  type VerifiedRequest,
} from './request-checks.ts';
export {
  createSeal,
  makeSealKey,
  openSeal,
  readSealKey,
  type Seal,
  secretsPrefix,
  writeSealKey,
} from './seal.ts';
export { type SessionKeys, sessionKey } from './session-keys.ts';
export type { SharedKeySource } from './shared-key-source.ts';
export { createFullnessCheck, type KeyAcceptanceHook, SignIn } from './sign-in.ts';
export { SignatureCheck } from './signature-check.ts';
export { pinKey, readPins } from './version-check.ts';
