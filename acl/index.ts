export { decide } from './decide.ts';
export type {
  Decision,
  EventResource,
  MinionSubject,
  Question,
  ReturnResource,
} from './types.ts';
