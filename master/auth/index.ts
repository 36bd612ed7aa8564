export { type Auth, createAuth } from './auth.ts';
export { keepSeal, openMasterSeal, shareOwnKeys, writeOwnKeys } from './cluster-keys.ts';
export { keyErrors } from './key-errors.ts';
export type { HeldKey, KeyLifecycle } from './key-lifecycle.ts';
export { type KeyChange, type KeyStore, literalGlob } from './key-store.ts';
export { type KeySurvey, type SurveyedKey, surveyKeys, surveyOwnKeys } from './key-survey.ts';
export { keyMarks, type OfflineKeys, type OwnKey, openOfflineKeys } from './keys-api.ts';
export { openMasterKeys, preparePrivateDirectories } from './master-keys.ts';
export { type KeyPlace, PkiDir, placeDirectories } from './pki-directory.ts';
export {
  DropConnectionError,
  type Handler,
  type Reply,
  readPins,
  SignatureCheck,
  send,
  sendLater,
  type TokenCheck,
  type VerifiedRequest,
  type VersionCheck,
  type VersionPins,
} from './request-checks.ts';
export {
  createSeal,
  type HeardFrom,
  type LastHeard,
  type PublishKey,
  type Seal,
  type SessionKeys,
  secretsPrefix,
} from './session-keys.ts';
export { shareMinionKeys, writeMinionKeys } from './shared-keys.ts';
export { createFullnessCheck, type KeyAcceptanceHook, type OfferedKey, SignIn } from './sign-in.ts';
