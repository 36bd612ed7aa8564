export { type Auth, createAuth } from './auth.ts';
export { KeyError, keyErrors } from './key-errors.ts';
export type { KeyLifecycle } from './key-lifecycle.ts';
export { type KeyChange, type KeyStore, literalGlob } from './key-store.ts';
export { type KeySurvey, type SurveyedKey, surveyKeys, surveyOwnKeys } from './key-survey.ts';
export { keyMarks, type OfflineKeys, openOfflineKeys } from './keys-api.ts';
export { openMasterKeys, preparePrivateDirectories } from './master-keys.ts';
export {
  type KeyFile,
  type KeyFiles,
  type KeyPlace,
  keyPlaces,
  PkiDir,
  placeDirectories,
  watchPkiDir,
} from './pki-directory.ts';
export {
  DropConnectionError,
  type Handler,
  type Reply,
  send,
  sendLater,
  type VerifiedRequest,
} from './request-checks.ts';
export {
  createSeal,
  type HeardFrom,
  type LastHeard,
  makeSealKey,
  openSeal,
  type PublishKey,
  readSealKey,
  type Seal,
  type SessionKeys,
  secretsPrefix,
  sessionKey,
  writeSealKey,
} from './session-keys.ts';
export type { SharedKeySource } from './shared-key-source.ts';
export { createFullnessCheck, type KeyAcceptanceHook, SignIn } from './sign-in.ts';
export { SignatureCheck } from './signature-check.ts';
export type { TokenCheck } from './token-check.ts';
export { pinKey, readPins, type VersionCheck, type VersionPins } from './version-check.ts';
