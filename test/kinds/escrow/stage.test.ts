// Exhaustive check of the stage machine: every phase, action, role and moment has one stated result, and the results have
// the properties that the table promises.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  actions,
  allowed,
  finalPhases,
  judge,
  moments,
  phases,
  roles,
  rules,
  type Effect,
  type RefusalCode,
} from '../../../src/kinds/escrow/stage.ts';

/** The machine again as text: phase.action = roles@moment>effect. A table change must be repeated here. */
const stated = `
open.counter = client provider @before >offer
open.fund = client @before >hold
open.cancel = client @any >withdraw
open.decline = provider @any >withdraw
open.conclude = everyone @after >lapse
funded.submit = provider @before >deliver
funded.decline = provider @any >return
funded.reject = evaluator @any >return
funded.conclude = everyone @after >expire
submitted.approve = client @before >release
submitted.approve = evaluator member system @before >verdictApprove
submitted.reject = evaluator member system @before >verdictReject
submitted.decline = provider @any >return
submitted.dispute = client provider @before >openDispute
submitted.conclude = everyone @after >silence
decided.approve = client @before >release
decided.decline = provider @any >return
decided.dispute = client provider @before >openDispute
decided.conclude = everyone @after >verdictStands
disputed.approve = client @before >release
disputed.decline = provider @any >return
disputed.resolve = arbiter @before >resolution
disputed.conclude = everyone @after >disputeSilence
`;

const expected = new Map<string, Effect>();
for (const line of stated.trim().split('\n')) {
  const match = /^(\w+)\.(\w+) = (.+) @(\w+) >(\w+)$/.exec(line)!;
  const [, phase, action, who, when, effect] = match;
  for (const role of who === 'everyone' ? roles : who!.split(' ')) {
    for (const moment of when === 'any' ? moments : [when]) {
      expected.set(`${phase} ${action} ${role} ${moment}`, effect as Effect);
    }
  }
}

test('every (phase, action, role, moment) is allowed with its effect or refused with a code', () => {
  const codes = new Set<RefusalCode>();
  let combinations = 0;
  for (const phase of phases)
    for (const action of actions)
      for (const role of roles)
        for (const moment of moments) {
          combinations++;
          const answer = judge({ phase, action }, new Set([role]), moment);
          const wanted = expected.get(`${phase} ${action} ${role} ${moment}`);
          const where = `${phase} ${action} ${role} ${moment}`;
          if (wanted) assert.deepEqual(answer, { effect: wanted }, where);
          else {
            assert.ok('refused' in answer, `${where} must be refused`);
            codes.add(answer.refused);
          }
        }
  assert.equal(combinations, phases.length * actions.length * roles.length * moments.length);
  assert.deepEqual(
    [...codes].toSorted(),
    [
      'deadlinePassed',
      'evaluationPending',
      'jobFinal',
      'notArbiter',
      'notClient',
      'notEvaluator',
      'notParty',
      'notProvider',
      'notYetExpired',
      'wrongStage',
    ].toSorted(),
  );
});

test('a final phase allows no action', () => {
  for (const phase of finalPhases)
    for (const moment of moments) assert.deepEqual(allowed(phase, new Set(roles), moment), []);
});

test('every phase that is not final can end: everybody may conclude it after its deadline', () => {
  for (const phase of phases.filter((p) => !finalPhases.has(p)))
    for (const role of roles) {
      assert.ok('effect' in judge({ phase, action: 'conclude' }, new Set([role]), 'after', true));
      assert.ok('refused' in judge({ phase, action: 'conclude' }, new Set([role]), 'before'));
    }
});

test('a pause stops funding and payouts, never refunds', () => {
  const stopped = new Set<string>();
  for (const rule of rules) {
    const moment = rule.when === 'any' ? 'before' : rule.when;
    const answer = judge(rule, new Set([rule.roles[0]!]), moment, true);
    if ('refused' in answer) stopped.add(rule.action);
  }
  assert.deepEqual([...stopped].toSorted(), ['approve', 'counter', 'fund', 'submit']);
});

test('a caller with several roles gets the first row that matches one of them', () => {
  const both = new Set(['client', 'evaluator', 'other'] as const);
  assert.deepEqual(judge({ phase: 'submitted', action: 'approve' }, both, 'before'), {
    effect: 'release',
  });
  assert.deepEqual(judge({ phase: 'submitted', action: 'reject' }, both, 'before'), {
    effect: 'verdictReject',
  });
});
