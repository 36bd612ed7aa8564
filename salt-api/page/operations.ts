/** What the routes of the status page, and `/metrics`, say of themselves in /openapi.json. */
import Type from '#typebox';
import { type Operation, usualRefusal } from '../operation.ts';

const text = Type.String();
const form = { bodyTypes: ['application/x-www-form-urlencoded'], status: 303 } as const;

export const pageOperation: Operation = {
  summary: 'A page about the master, for people; without a session, its log-in',
  access: 'anybody',
  query: { told: text },
  answer: text,
  answerTypes: ['text/html'],
};

export const assetOperation: Operation = {
  summary: 'A part of the page for people',
  access: 'anybody',
  answer: text,
  answerTypes: ['text/css', 'text/javascript', 'image/svg+xml'],
};

export const explainOperation: Operation = {
  summary: 'Why a signal was denied, as a page',
  access: 'session',
  query: { minion: text, tag: text },
  answer: text,
  answerTypes: ['text/html'],
};

export const sectionsOperation: Operation = {
  summary: 'Sections of the page for people as they change',
  access: 'session',
  answer: text,
  answerTypes: ['text/event-stream'],
};

export const pageLoginOperation: Operation = {
  summary: 'Logs in by the form of the page',
  access: 'credentials',
  body: Type.Object({ username: text, password: text, eauth: text }),
  refusal: { ...usualRefusal, 'text/html': text },
  ...form,
};

export const pageLogoutOperation: Operation = {
  summary: 'Logs out by the form of the page',
  access: 'session',
  body: Type.Object({ form: text }),
  ...form,
};

export const decideOperation: Operation = {
  summary: 'Accepts or rejects a pending key by its fingerprint, by the form of the page',
  access: 'session',
  body: Type.Object({
    form: text,
    action: Type.Union([Type.Literal('accept'), Type.Literal('reject')]),
    id: text,
    fingerprint: text,
  }),
  ...form,
};

export const metricsOperation: Operation = {
  summary: "Measurements in Prometheus' text format, for whom `metrics` names",
  access: 'anybody',
  answer: text,
  answerTypes: ['text/plain'],
};
