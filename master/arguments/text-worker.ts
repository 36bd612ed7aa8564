/** The thread that reads what is too long for the main one: one text at a time. */

import { parentPort } from 'node:worker_threads';
import { writeMarkedJson } from './json-values.ts';
import { type TextAnswer, type TextTask, readText } from './argument-reader.ts';

parentPort?.on('message', (task: TextTask) => {
  parentPort?.postMessage(answerOf(task));
});
parentPort?.postMessage('ready');

function answerOf(task: TextTask): TextAnswer {
  try {
    return { ok: true, json: writeMarkedJson(readText(task)) };
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : 'it cannot be read' };
  }
}
